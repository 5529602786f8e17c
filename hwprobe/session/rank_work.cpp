// Tasks and results of the ranks of a probe. Nothing of a peer is trusted: numbers are checked, texts are only shown.
// Tested by tests/hwprobe/wire_test.cpp and tests/hwprobe/probe_ranks_test.cpp.
#include "hwprobe/session/rank_work.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "hwprobe/ranks/wire.hpp"

extern char** environ;

namespace plan {
namespace {

enum Task : std::int64_t { kOpen = 1, kJoin, kMeasure, kTransport };
constexpr int kMostNumbers = 7000;  // of a transport frame
constexpr int kMostPulses = 100;    // of a result

std::string failure(int status, const std::string& error) { return pack_result({.status = status, .error = error}); }

std::string pack_device(const plan_probe_device& d) {
  Packer out;
  out.number(PLAN_PROBE_OK).text("");
  for (const char* text : {d.name, d.uuid, d.pci_bus, d.capability, d.runtime, d.nccl, d.cudnn, d.cublas})
    out.text(text);
  return out.number(d.total_bytes).number(d.free_bytes).number(d.l2_bytes).number(d.sm_count).number(d.devices).take();
}

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  std::snprintf(to, N, "%s", printable(from).c_str());
}

double transport_value(int rank, int i) { return rank + 0.001 * i; }

}  // namespace

std::string printable(std::string text, std::size_t longest) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  return text.substr(0, longest);
}

std::string RankHello::where() const { return gpu < 0 ? host : fmt::format("{}, GPU {}", host, gpu); }

std::string pack_hello(const RankHello& h) {
  return Packer()
      .text(h.version)
      .text(h.host)
      .number(h.gpu)
      .number(h.local_rank)
      .number(h.processors)
      .text(h.gpu_name)
      .text(h.gpu_uuid)
      .text(h.driver)
      .text(h.clique)
      .text(h.busy)
      .text(h.environment.substr(0, 16384))
      .text(h.look)
      .take();
}

Result<RankHello> unpack_hello(const std::string& payload) {
  Unpacker in(payload);
  RankHello h;
  h.version = printable(in.text());
  h.host = printable(in.text());
  h.gpu = static_cast<int>(in.number_between(-1, 1024));
  h.local_rank = static_cast<int>(in.number_between(0, 1 << 20));
  h.processors = static_cast<int>(in.number_between(0, 1 << 20));
  h.gpu_name = printable(in.text());
  h.gpu_uuid = printable(in.text());
  h.driver = printable(in.text());
  h.clique = printable(in.text());
  h.busy = printable(in.text());
  h.environment = in.text();
  h.look = in.text();
  if (!in.complete())
    return fail(Error{"bad_hello",
                      "a rank introduced itself in another way than this version does",
                      {},
                      {"start the same plan everywhere"}});
  return h;
}

namespace {

/// The first rank that differs from rank 0 in something; 0 if none does.
template <class Of>
std::size_t different(const std::vector<RankHello>& ranks, Of of) {
  for (std::size_t r = 1; r < ranks.size(); ++r)
    if (of(ranks[r]) != of(ranks[0])) return r;
  return 0;
}

}  // namespace

std::vector<std::string> differences(const std::vector<RankHello>& ranks) {
  std::vector<std::string> all;
  const auto note = [&](std::string_view what, auto of) {
    if (const std::size_t r = different(ranks, of); r > 0)
      all.push_back(fmt::format("rank {} ({}) and rank 0 ({}) differ in {}: there `{}`, here `{}`", r, ranks[r].where(),
                                ranks[0].where(), what, printable(of(ranks[r])), printable(of(ranks[0]))));
  };
  note("the GPU", [](const RankHello& h) { return h.gpu_name; });
  note("their NCCL_*, FI_* or UCX_* variables", [](const RankHello& h) { return h.environment; });
  return all;
}

Errors inconsistencies(const std::vector<RankHello>& ranks, bool different_gpus) {
  Errors errors;
  std::map<std::string, std::size_t> seen;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].gpu_uuid.empty()) continue;
    const auto [first, fresh] = seen.emplace(ranks[r].gpu_uuid, r);
    if (!fresh)
      errors.push_back(
          {"shared_gpu",
           fmt::format("ranks {} and {} have the same GPU: {} of {}", first->second, r, ranks[r].gpu, ranks[r].host),
           {},
           {"one rank a GPU: --ntasks-per-node=GPUS and --gpus-per-node=GPUS under srun, -n GPUS under mpirun"}});
  }
  const auto same = [&](std::string_view what, auto of, std::string help) {
    if (const std::size_t r = different(ranks, of); r > 0)
      errors.push_back(
          {"inconsistent",
           fmt::format("rank {} ({}) and rank 0 ({}) differ in {}", r, ranks[r].where(), ranks[0].where(), what),
           {fmt::format("there `{}`, here `{}`", printable(of(ranks[r])), printable(of(ranks[0])))},
           {std::move(help)}});
  };
  const std::string remedy = "collectives between them may hang; make the nodes the same";
  same(
      "the version of plan", [](const RankHello& h) { return h.version; }, remedy);
  if (!different_gpus)
    same(
        "the GPU", [](const RankHello& h) { return h.gpu_name; },
        "probe one kind at a time (CUDA_VISIBLE_DEVICES, one job a kind), or all together with --allow-different");
  same(
      "the driver", [](const RankHello& h) { return h.driver.substr(0, h.driver.find('.')); }, remedy);
  return errors;
}

std::string network_environment() {
  std::vector<std::string> all;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string_view text(*e);
    const bool ours = text.starts_with("NCCL_") || text.starts_with("FI_") || text.starts_with("UCX_");
    if (ours && !text.starts_with("NCCL_HOSTID=") && !text.starts_with("NCCL_DEBUG_FILE="))
      all.emplace_back(text.substr(0, 300));
  }
  std::sort(all.begin(), all.end());
  std::string joined;
  for (const std::string& text : all) joined += (joined.empty() ? "" : " ") + text;
  return joined;
}

std::string open_task(const std::vector<int>& place) {
  Packer out;
  out.number(kOpen).number(static_cast<std::int64_t>(place.size()));
  for (const int number : place) out.number(number);
  return out.take();
}
std::string join_task(const std::string& nccl_id) { return Packer().number(kJoin).text(nccl_id).take(); }

std::string measure_task(const plan_probe_point& p) {
  Packer out;
  out.number(kMeasure);
  for (const std::int32_t value : {p.kind, p.format, p.orientation, p.op, p.group_size, p.group_stride, p.all_groups,
                                   p.least_samples, p.most_samples})
    out.number(value);
  for (const std::int64_t value : p.number) out.number(value);
  return out.real(p.max_seconds).take();
}

std::string transport_task(int count, const std::vector<double>& expected_sum) {
  Packer out;
  out.number(kTransport).number(count).number(static_cast<std::int64_t>(expected_sum.size()));
  for (const double value : expected_sum) out.real(value);
  return out.take();
}

std::string pack_result(const RankResult& r) {
  Packer out;
  out.number(r.status).text(r.error.substr(0, 400)).number(r.data.took_part).number(r.data.count);
  for (int i = 0; i < r.data.count; ++i) out.real(r.data.seconds[i]);
  for (const double value : r.data.value) out.real(value);
  out.real(r.data.bytes).real(r.data.eager_seconds).text(r.data.text);
  const std::size_t pulses = std::min<std::size_t>(r.pulses.size(), kMostPulses);
  out.number(static_cast<std::int64_t>(pulses));
  for (std::size_t i = 0; i < pulses; ++i) {
    const GpuPulse& pulse = r.pulses[i];
    out.real(pulse.sm_mhz).real(pulse.memory_mhz).real(pulse.watts).real(pulse.celsius);
    out.number(static_cast<std::int64_t>(pulse.reasons));
  }
  return out.take();
}

Result<RankResult> unpack_result(const std::string& payload) {
  Unpacker in(payload);
  RankResult r;
  r.status = static_cast<int>(in.number_between(-100, 0));
  r.error = printable(in.text());
  r.data.took_part = static_cast<int>(in.number_between(0, 1));
  r.data.count = static_cast<int>(in.number_between(0, PLAN_PROBE_SAMPLES));
  bool sane = true;
  const auto value = [&] {
    const double x = in.real();
    sane = sane && std::isfinite(x) && x >= 0;
    return x;
  };
  for (int i = 0; i < r.data.count; ++i) r.data.seconds[i] = value();
  for (double& x : r.data.value) x = value();
  r.data.bytes = value();
  r.data.eager_seconds = value();
  copy_text(r.data.text, in.text());
  const auto pulses = in.number_between(0, kMostPulses);
  for (std::int64_t i = 0; i < pulses; ++i) {
    GpuPulse pulse;
    for (double* x : {&pulse.sm_mhz, &pulse.memory_mhz, &pulse.watts, &pulse.celsius}) *x = value();
    pulse.reasons = static_cast<std::uint64_t>(in.number());
    r.pulses.push_back(pulse);
  }
  if (!in.complete() || !sane) return fail(Error{"bad_result", "a rank sent a result that is none"});
  return r;
}

std::vector<double> unpack_numbers(const std::string& payload) {
  Unpacker in(payload);
  const bool right = in.number() == 1;
  const auto count = in.number_between(0, kMostNumbers);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(in.real());
  return right && in.complete() ? numbers : std::vector<double>{};
}

Result<plan_probe_device> unpack_device(const std::string& payload) {
  Unpacker in(payload);
  const auto status = in.number();
  const std::string error = printable(in.text());
  if (status != PLAN_PROBE_OK) return fail(Error{"no_device", error.empty() ? "the device cannot be opened" : error});
  plan_probe_device d{};
  copy_text(d.name, in.text());
  copy_text(d.uuid, in.text());
  copy_text(d.pci_bus, in.text());
  copy_text(d.capability, in.text());
  copy_text(d.runtime, in.text());
  copy_text(d.nccl, in.text());
  copy_text(d.cudnn, in.text());
  copy_text(d.cublas, in.text());
  d.total_bytes = in.number_between(0, std::int64_t{1} << 60);
  d.free_bytes = in.number_between(0, std::int64_t{1} << 60);
  d.l2_bytes = in.number_between(0, std::int64_t{1} << 40);
  d.sm_count = static_cast<int>(in.number_between(0, 100000));
  d.devices = static_cast<int>(in.number_between(0, 100000));
  if (!in.complete())
    return fail(Error{"bad_result", "a rank described its GPU in another way than this version does"});
  return d;
}

RankWork::RankWork(std::string plugin, DeviceSetup setup)
    : plugin_(std::move(plugin)), setup_(std::move(setup)), rank_(setup_.rank) {}

std::shared_ptr<Device> RankWork::device() {
  const std::lock_guard lock(mutex_);
  return device_;
}

std::shared_ptr<PulseSampler> RankWork::sampler() {
  const std::lock_guard lock(mutex_);
  return pulses_;
}

void RankWork::abort() {
  if (const std::shared_ptr<Device> open = device()) open->stop();
}

std::string RankWork::run(const std::string& task) {
  Unpacker in(task);
  const std::int64_t kind = in.number();
  if (kind == kTransport) {
    const auto count = static_cast<int>(in.number_between(0, kMostNumbers));
    const auto sums = in.number_between(0, kMostNumbers);
    bool right = true;
    for (std::int64_t i = 0; i < sums; ++i) {
      double sum = 0;
      for (int r = 0; r < setup_.world; ++r) sum += transport_value(r, static_cast<int>(i));
      right = std::abs(in.real() - sum) <= 1e-9 * (1 + std::abs(sum)) && right;
    }
    Packer out;
    out.number(right && in.complete() ? 1 : 0).number(count);
    for (int i = 0; i < count; ++i) out.real(transport_value(rank_, i));
    return out.take();
  }
  if (kind == kOpen) {
    const auto ranks = in.number_between(0, kMostNumbers);
    for (std::int64_t r = 0; r < ranks; ++r) {
      const auto place = static_cast<int>(in.number_between(0, kMostNumbers));
      if (r == rank_) setup_.rank = place;
    }
    const Result<std::shared_ptr<Device>> opened = Device::open(plugin_, setup_);
    if (!opened) return failure(PLAN_PROBE_FAILED, opened.error()[0].message);
    const std::lock_guard lock(mutex_);
    device_ = *opened;
    pulses_ = std::make_shared<PulseSampler>(device_->facts().uuid);
    return pack_device(device_->facts());
  }
  const std::shared_ptr<Device> open = device();
  if (!open) return failure(PLAN_PROBE_FAILED, "no device is open");
  if (kind == kJoin) return pack_result(open->join(in.text()));
  plan_probe_point p{};
  for (std::int32_t* value : {&p.kind, &p.format, &p.orientation, &p.op, &p.group_size, &p.group_stride, &p.all_groups,
                              &p.least_samples, &p.most_samples})
    *value = static_cast<std::int32_t>(in.number());
  for (std::int64_t& value : p.number) value = in.number();
  p.max_seconds = in.real();
  if (kind != kMeasure || !in.complete()) return failure(PLAN_PROBE_FAILED, "rank 0 gave a task that is none");
  RankResult result = open->measure(p);
  if (const std::shared_ptr<PulseSampler> pulses = sampler()) result.pulses = pulses->take();
  return pack_result(result);
}

OwnWork own_work(const std::shared_ptr<RankWork>& work) {
  return {[work](const std::string& task) { return work->run(task); }, [work] { work->abort(); }};
}

}  // namespace plan
