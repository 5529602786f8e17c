// What a probe would meet, before it spends minutes on finding out. Tested by tests/hwprobe/check_test.cpp.
#include "hwprobe/session/check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "hwprobe/node/visible.hpp"
#include "hwprobe/ranks/wire.hpp"
#include "hwprobe/session/placement.hpp"
#include "hwprobe/session/plugin.hpp"

namespace plan {
namespace {

constexpr double kTakenShare = 0.1;  // of the memory, by others: large points may find no room

std::string cuda_text(int version) {
  return version > 0 ? fmt::format("{}.{}", version / 1000, version % 1000 / 10) : std::string();
}

int major_of(const std::string& version) { return std::atoi(version.c_str()); }

bool older(const std::string& version, int major, int minor) {
  const std::size_t dot = version.find('.');
  const int own = dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
  return std::pair(major_of(version), own) < std::pair(major, minor);
}

/// "mlx5_0 400": adapters whose nearest GPU this is, else those of its NUMA node.
std::string adapters_near(const Machine& machine, const GpuFacts& gpu, int numa) {
  std::string text;
  for (const bool by_bridge : {true, false}) {
    for (const NicFacts& nic : machine.nics)
      if (nic.active && (by_bridge ? nic.nearest_gpu == gpu.index : nic.numa == numa || numa < 0))
        text += fmt::format("{}{} {:.0f}", text.empty() ? "" : ", ", nic.device, 8 * nic.gb_s);
    if (!text.empty()) break;
  }
  return text;
}

struct Findings {
  std::vector<CheckFinding> all{};
  void stop(std::string code, std::string text, std::string help) {
    all.push_back({std::move(code), {}, std::move(text), std::move(help), true});
  }
  void less(std::string code, std::string text, std::string help = {}) {
    all.push_back({std::move(code), {}, std::move(text), std::move(help), false});
  }
};

void check_libraries(const RankCheck& check, int world, Findings& out) {
  const std::string_view lost[] = {
      "GEMMs would be skipped",
      world > 1 ? "collectives, overlap and the network would be skipped" : "what it takes of memory would be skipped",
      "attention would be skipped"};
  const std::string_view flags[] = {"--cublas-lib", "--nccl-lib", "--cudnn-lib"};
  for (const Vendor vendor : vendors_of(check.maker)) {
    const auto v = static_cast<std::size_t>(vendor);
    const VendorLibrary& library = check.libraries[v];
    const std::string_view called = name(vendor, check.maker);
    const std::string help = fmt::format("`{} FILE`, or start it in the Python environment of the training", flags[v]);
    if (!library.missing.empty())
      out.less("NO_LIBRARY", fmt::format("no {} ({}): {}", called, library.missing, lost[v]), help);
    else if (vendor == Vendor::CublasLt && !check.cuda.empty() && major_of(library.version) > major_of(check.cuda))
      out.less("OLD_DRIVER",
               fmt::format("cuBLASLt {} needs a driver of CUDA {}, and this one runs CUDA {}: {}", library.version,
                           major_of(library.version), check.cuda, lost[v]),
               help);
    else if (vendor == Vendor::Nccl && older(library.version, 2, 18))
      out.less("OLD_LIBRARY", fmt::format("{} {} is older than 2.18: {}", called, library.version, lost[v]), help);
    else if (vendor == Vendor::Cudnn && older(library.version, 9, 0))
      out.less("OLD_LIBRARY", fmt::format("cuDNN {} is older than 9: {}", library.version, lost[v]), help);
  }
}

void check_plugin(const Surroundings& at, RankCheck& check, Findings& out) {
  if (at.plugin.empty()) {
    out.stop("NO_PLUGIN", fmt::format("the plugin that measures, {}, was not built", plugin_name(at.machine.maker)),
             how_to_build(at.machine.maker));
    return;
  }
  const Result<int> toolkit = plugin_toolkit(at.plugin);
  if (!toolkit) {
    out.stop("NO_PLUGIN", toolkit.error()[0].message,
             toolkit.error()[0].help.empty() ? "build plan and its plugin together" : toolkit.error()[0].help[0]);
    return;
  }
  check.toolkit = cuda_text(*toolkit);
  if (check.maker == Maker::Nvidia && !check.cuda.empty() && major_of(check.toolkit) > major_of(check.cuda))
    out.stop("OLD_DRIVER",
             fmt::format("driver {} runs CUDA up to {}, and the plugin was built with CUDA {}", at.machine.driver,
                         check.cuda, check.toolkit),
             fmt::format("a newer driver, or a plugin built with CUDA {}", major_of(check.cuda)));
}

void check_gpu(const Surroundings& at, const GpuFacts& gpu, Findings& out) {
  for (MachineFinding& f : findings({.gpus = {gpu}})) {
    if (f.code != "BUSY") {
      out.less(f.code, std::move(f.text));
      continue;
    }
    const std::string text = "its GPU is in use: " + f.text;
    if (at.allow_busy)
      out.less(f.code, text + "; figures may mean little");
    else
      out.stop(f.code, text, "wait for them to end, or measure anyway with --allow-busy");
  }
  const double taken = gpu.total_gib - gpu.free_gib;
  if (taken > kTakenShare * gpu.total_gib)
    out.less(
        "MEMORY_TAKEN",
        fmt::format("{:.1f} of {:.1f} GiB are taken: points that find no room would be skipped", taken, gpu.total_gib),
        fmt::format("end what holds it (`{}` lists it)", gpu.maker == Maker::Amd ? "amd-smi process" : "nvidia-smi"));
}

void check_place(const Surroundings& at, const RankCheck& check, Findings& out) {
  const auto cores = static_cast<int>(at.processors.size());
  if (at.world > 1 && cores < kFewProcessors)
    out.less("FEW_CORES",
             fmt::format("{} core{} for this rank and NCCL's threads: its network would look slow", cores,
                         cores == 1 ? "" : "s"),
             fmt::format("--cpus-per-task={}, --cpu-bind=none", kFewProcessors));
  if (!at.beside)
    out.less("FAR_CORES", "bound to cores that do not stand beside its GPU: copies would cross sockets",
             "--cpu-bind=none, and plan binds each rank itself");
  for (const NicFacts& nic : at.machine.nics)
    if (!nic.active) out.less("PORT_DOWN", fmt::format("the port of {} is not active", nic.device));
  const bool active =
      std::any_of(at.machine.nics.begin(), at.machine.nics.end(), [](const NicFacts& nic) { return nic.active; });
  if (active && check.rdma.empty() && check.maker == Maker::Nvidia)
    out.less("NO_RDMA",
             "no nvidia_peermem and no open kernel modules: the network would be measured through host memory",
             "`modprobe nvidia-peermem`");
}

}  // namespace

RankCheck check_rank(const Surroundings& at, const Variables& variables) {
  RankCheck check;
  Findings out;
  check.maker = at.machine.maker;
  check.cuda = cuda_text(at.machine.cuda);
  check.visible = choice_of_gpus(at.machine.maker, variables, false).substr(0, 200);
  if (check.visible.empty() && choice_of_gpus(at.machine.maker, variables).empty()) check.visible = "all";
  check.rdma = at.machine.rdma;
  const bool gpu = at.gpu >= 0 && static_cast<std::size_t>(at.gpu) < at.machine.gpus.size();
  if (!gpu)
    out.stop("NO_GPU", at.machine.no_gpu,
             "on a cluster: `srun --gpus-per-node 8 --ntasks-per-node 8 plan probe --check`");
  check_plugin(at, check, out);
  for (const Vendor vendor : vendors_of(check.maker)) {
    const auto v = static_cast<std::size_t>(vendor);
    check.libraries[v] =
        look_at_library(vendor, find_library(vendor, at.named[v].path, variables, check.maker), check.maker);
  }
  check_libraries(check, at.world, out);
  if (gpu) {
    const GpuFacts& own = at.machine.gpus[static_cast<std::size_t>(at.gpu)];
    check.numa = own.numa;
    check.free_gib = own.free_gib;
    check.total_gib = own.total_gib;
    check.adapters = adapters_near(at.machine, own, own.numa);
    check_gpu(at, own, out);
    check_place(at, check, out);
  }
  check.findings = std::move(out.all);
  return check;
}

std::string pack_check(const RankCheck& c) {
  constexpr std::size_t kLongest = 400;
  Packer out;
  const auto text = [&](const std::string& value) { out.text(value.substr(0, kLongest)); };
  text(c.cuda), text(c.toolkit), text(c.visible), text(c.adapters), text(c.rdma);
  for (const VendorLibrary& library : c.libraries) text(library.path), text(library.version), text(library.missing);
  out.number(c.maker == Maker::Amd ? 1 : 0);
  out.number(c.numa).real(c.free_gib).real(c.total_gib).number(static_cast<std::int64_t>(c.findings.size()));
  for (const CheckFinding& f : c.findings) text(f.code), text(f.text), text(f.help), out.number(f.stops ? 1 : 0);
  return out.take();
}

Result<RankCheck> unpack_check(const std::string& payload) {
  Unpacker in(payload);
  RankCheck c;
  const auto text = [&] { return printable(in.text(), 400); };
  for (std::string* value : {&c.cuda, &c.toolkit, &c.visible, &c.adapters, &c.rdma}) *value = text();
  for (VendorLibrary& library : c.libraries) library.path = text(), library.version = text(), library.missing = text();
  c.maker = in.number_between(0, 1) == 1 ? Maker::Amd : Maker::Nvidia;
  c.numa = static_cast<int>(in.number_between(-1, 1024));
  c.free_gib = in.real();
  c.total_gib = in.real();
  const auto count = in.number_between(0, 64);
  for (std::int64_t i = 0; i < count; ++i) {
    CheckFinding f;
    f.code = text(), f.text = text(), f.help = text(), f.stops = in.number() == 1;
    c.findings.push_back(std::move(f));
  }
  if (!in.complete() || !std::isfinite(c.free_gib) || !std::isfinite(c.total_gib))
    return fail(Error{"bad_hello", "a rank described itself in another way than this version does"});
  return c;
}

std::vector<CheckFinding> check_job(const std::vector<CheckedRank>& ranks, const Errors& obstacles) {
  std::vector<CheckFinding> all;
  for (const Error& error : obstacles) {
    std::string text = error.message;
    for (const std::string& fact : error.facts) text += ", " + fact;
    all.push_back({error.code, "job", text, error.help.empty() ? "" : error.help[0], true});
  }
  for (const CheckedRank& rank : ranks)
    for (CheckFinding f : rank.check.findings) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const CheckFinding& other) {
        return other.where != "job" && other.code == f.code && other.text == f.text;
      });
      f.where = fmt::format("rank {} ({})", rank.number, rank.hello.where());
      if (same == all.end())
        all.push_back(std::move(f));
      else
        same->where += fmt::format(", {}", rank.number);
    }
  std::vector<RankHello> hellos;
  for (const CheckedRank& rank : ranks) hellos.push_back(rank.hello);
  for (const std::string& text : differences(hellos))
    if (std::none_of(obstacles.begin(), obstacles.end(),
                     [&](const Error& error) { return text.starts_with(error.message); }))
      all.push_back({"DIFFERENT", "job", text, "", false});
  for (const Vendor vendor : ranks.empty() ? std::vector<Vendor>{} : vendors_of(ranks[0].check.maker)) {
    const auto version = [&](const CheckedRank& rank) {
      const std::string& known = rank.check.libraries[static_cast<std::size_t>(vendor)].version;
      return known.empty() ? "none" : known;
    };
    const auto other = std::find_if(ranks.begin(), ranks.end(),
                                    [&](const CheckedRank& rank) { return version(rank) != version(ranks[0]); });
    if (other == ranks.end()) continue;
    all.push_back(
        {"DIFFERENT", "job",
         fmt::format("rank {} ({}) would load {} {}, and rank {} {}", other->number, other->hello.where(),
                     name(vendor, other->check.maker), version(*other), ranks[0].number, version(ranks[0])),
         vendor == Vendor::Nccl ? "ranks with different NCCL do not meet: name one file with `--nccl-lib`" : "",
         false});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.stops > b.stops; });
  return all;
}

}  // namespace plan
