// What ranks of a probe say to each other arrives as it was said, or not at all; and what they do when they are told.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "hwprobe/ranks/wire.hpp"
#include "hwprobe/session/check.hpp"
#include "hwprobe/session/rank_work.hpp"

using namespace plan;

namespace {

std::string any_text(std::mt19937& random, std::size_t most) {
  std::string text(random() % (most + 1), ' ');
  for (char& c : text) c = static_cast<char>(0x20 + random() % 95);
  return text;
}

double any_real(std::mt19937& random) { return std::ldexp(static_cast<double>(random() % 100000), -10); }

RankResult any_result(std::mt19937& random) {
  RankResult r;
  r.status = -static_cast<int>(random() % 101);
  r.error = any_text(random, 200);
  r.data.took_part = static_cast<int>(random() % 2);
  const int counts[] = {0, 1, static_cast<int>(random() % PLAN_PROBE_SAMPLES), PLAN_PROBE_SAMPLES};
  r.data.count = counts[random() % 4];
  for (int i = 0; i < r.data.count; ++i) r.data.seconds[i] = any_real(random);
  for (double& value : r.data.value) value = any_real(random);
  r.data.bytes = any_real(random), r.data.eager_seconds = any_real(random);
  std::snprintf(r.data.text, sizeof r.data.text, "%s", any_text(random, sizeof r.data.text - 1).c_str());
  for (unsigned long i = random() % 4; i > 0; --i)
    r.pulses.push_back({any_real(random), any_real(random), any_real(random), any_real(random), random()});
  return r;
}

RankHello any_hello(std::mt19937& random) {
  RankHello h{.gpu = static_cast<int>(random() % 1026) - 1,
              .local_rank = static_cast<int>(random() % 1000),
              .processors = static_cast<int>(random() % 1000)};
  for (std::string* text : {&h.version, &h.host, &h.gpu_name, &h.gpu_uuid, &h.driver, &h.clique, &h.busy})
    *text = any_text(random, 200);
  h.environment = any_text(random, 16384), h.look = any_text(random, 2000);
  return h;
}

RankCheck any_check(std::mt19937& random) {
  RankCheck c;
  c.maker = random() % 2 == 0 ? Maker::Nvidia : Maker::Amd;
  for (std::string* text : {&c.cuda, &c.toolkit, &c.visible, &c.adapters, &c.rdma}) *text = any_text(random, 400);
  for (VendorLibrary& library : c.libraries)
    library = {any_text(random, 400), any_text(random, 400), any_text(random, 400)};
  c.numa = static_cast<int>(random() % 1026) - 1;
  c.free_gib = any_real(random), c.total_gib = any_real(random);
  for (unsigned long i = random() % 65; i > 0; --i)
    c.findings.push_back({any_text(random, 20), {}, any_text(random, 400), any_text(random, 400), random() % 2 == 0});
  return c;
}

DeviceSetup rank_of(int rank, int world) {
  return {.rank = rank, .world = world, .local_rank = rank, .local_world = world};
}

/// Whether a packet arrives only whole: not cut short anywhere, not with a byte more.
template <class Arrives>
bool only_whole(const std::string& packet, Arrives arrives) {
  for (std::size_t length = 0; length < packet.size(); length += 1 + packet.size() / 300)
    if (arrives(packet.substr(0, length))) return false;
  return arrives(packet) && !arrives(packet.substr(0, packet.size() - 1)) && !arrives(packet + '\0');
}

}  // namespace

TEST_CASE("a result of a rank arrives number by number") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const RankResult sent = any_result(random);
    const Result<RankResult> got = unpack_result(pack_result(sent));
    REQUIRE(got.has_value());
    CHECK(got->status == sent.status);
    CHECK(got->error == sent.error);
    CHECK(got->data.took_part == sent.data.took_part);
    REQUIRE(got->data.count == sent.data.count);
    for (int i = 0; i < sent.data.count; ++i) CHECK(got->data.seconds[i] == sent.data.seconds[i]);
    for (int i = 0; i < 8; ++i) CHECK(got->data.value[i] == sent.data.value[i]);
    CHECK(got->data.bytes == sent.data.bytes);
    CHECK(got->data.eager_seconds == sent.data.eager_seconds);
    CHECK(std::string(got->data.text) == sent.data.text);
    REQUIRE(got->pulses.size() == sent.pulses.size());
    for (std::size_t i = 0; i < sent.pulses.size(); ++i) {
      const GpuPulse &a = got->pulses[i], &b = sent.pulses[i];
      CHECK(std::tie(a.sm_mhz, a.memory_mhz, a.watts, a.celsius, a.reasons) ==
            std::tie(b.sm_mhz, b.memory_mhz, b.watts, b.celsius, b.reasons));
    }
  }
}

TEST_CASE("what a rank says of itself arrives word by word") {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const RankHello a = any_hello(random);
    const Result<RankHello> hello = unpack_hello(pack_hello(a));
    REQUIRE(hello.has_value());
    const RankHello& b = *hello;
    CHECK(std::tie(a.version, a.host, a.gpu, a.local_rank, a.processors) ==
          std::tie(b.version, b.host, b.gpu, b.local_rank, b.processors));
    CHECK(std::tie(a.gpu_name, a.gpu_uuid, a.driver, a.clique, a.busy, a.environment, a.look) ==
          std::tie(b.gpu_name, b.gpu_uuid, b.driver, b.clique, b.busy, b.environment, b.look));
    CHECK(b.where() == (a.gpu < 0 ? a.host : fmt::format("{}, GPU {}", a.host, a.gpu)));
    const RankCheck c = any_check(random);
    const Result<RankCheck> check = unpack_check(pack_check(c));
    REQUIRE(check.has_value());
    const RankCheck& d = *check;
    CHECK(std::tie(c.maker, c.cuda, c.toolkit, c.visible, c.adapters, c.rdma, c.numa, c.free_gib, c.total_gib) ==
          std::tie(d.maker, d.cuda, d.toolkit, d.visible, d.adapters, d.rdma, d.numa, d.free_gib, d.total_gib));
    CHECK(c.findings == d.findings);
    for (std::size_t i = 0; i < c.libraries.size(); ++i)
      CHECK(std::tie(c.libraries[i].path, c.libraries[i].version, c.libraries[i].missing) ==
            std::tie(d.libraries[i].path, d.libraries[i].version, d.libraries[i].missing));
  }
}

TEST_CASE("no packet arrives in part or with something behind it") {
  std::mt19937 random(3);
  RankWork work("", rank_of(0, 1)), with_plugin(PLAN_PLUGIN_DOUBLE, rank_of(0, 1));
  for (int round = 0; round < 20; ++round) {
    CHECK(
        only_whole(pack_result(any_result(random)), [](const std::string& p) { return unpack_result(p).has_value(); }));
    CHECK(only_whole(pack_hello(any_hello(random)), [](const std::string& p) { return unpack_hello(p).has_value(); }));
    CHECK(only_whole(pack_check(any_check(random)), [](const std::string& p) { return unpack_check(p).has_value(); }));
  }
  CHECK(
      only_whole(work.run(transport_task(7, {})), [](const std::string& p) { return unpack_numbers(p).size() == 7; }));
  CHECK(only_whole(with_plugin.run(open_task({0})), [](const std::string& p) { return unpack_device(p).has_value(); }));
}

TEST_CASE("numbers that no rank can mean do not arrive, those at the edge do") {
  std::mt19937 random(4);
  const auto hello = [&](int RankHello::*number, int value) {
    RankHello h = any_hello(random);
    h.*number = value;
    return unpack_hello(pack_hello(h)).has_value();
  };
  for (const int gpu : {-1, 0, 1024}) CHECK(hello(&RankHello::gpu, gpu));
  for (const int gpu : {-2, 1025}) CHECK_FALSE(hello(&RankHello::gpu, gpu));
  for (int RankHello::*number : {&RankHello::local_rank, &RankHello::processors}) {
    for (const int good : {0, 1 << 20}) CHECK(hello(number, good));
    for (const int bad : {-1, (1 << 20) + 1}) CHECK_FALSE(hello(number, bad));
  }
  const auto check = [&](int numa) {
    RankCheck c = any_check(random);
    c.numa = numa;
    return unpack_check(pack_check(c)).has_value();
  };
  for (const int numa : {-1, 0, 1024}) CHECK(check(numa));
  for (const int numa : {-2, 1025}) CHECK_FALSE(check(numa));
  const double nan = std::numeric_limits<double>::quiet_NaN(), endless = std::numeric_limits<double>::infinity();
  const std::function<void(RankResult&, double)> places[] = {
      [](RankResult& r, double x) { r.data.count = 2, r.data.seconds[1] = x; },
      [](RankResult& r, double x) { r.data.value[7] = x; },
      [](RankResult& r, double x) { r.data.bytes = x; },
      [](RankResult& r, double x) { r.data.eager_seconds = x; },
      [](RankResult& r, double x) { r.pulses = {{.sm_mhz = x}}; },
      [](RankResult& r, double x) { r.pulses = {{.celsius = x}}; }};
  for (const auto& put : places) {
    RankResult r = any_result(random);
    put(r, 0.0);
    CHECK(unpack_result(pack_result(r)).has_value());
    for (const double bad : {-1.0, nan, endless}) {
      put(r, bad);
      CHECK_FALSE(unpack_result(pack_result(r)).has_value());
    }
  }
  for (const int status : {1, -101}) CHECK_FALSE(unpack_result(pack_result({.status = status})).has_value());
  RankResult many = any_result(random);
  many.pulses.assign(300, {.watts = 5});  // ten seconds of them are enough of a picture
  CHECK(unpack_result(pack_result(many))->pulses.size() == 100);
}

TEST_CASE("texts of another rank are shown in plain characters, at most so many") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::string shown = printable(all, 256);
  REQUIRE(shown.size() == 256);
  for (std::size_t c = 0; c < 256; ++c) CHECK(shown[c] == (c >= 0x20 && c <= 0x7e ? static_cast<char>(c) : '?'));
  CHECK(printable(std::string(300, 'x')).size() == 200);
  CHECK(printable(std::string(300, 'x'), 7) == "xxxxxxx");
}

TEST_CASE("ranks add up what each of them sends, and notice a sum that is none") {
  for (int world = 1; world <= 4; ++world)
    for (const int count : {0, 1, 5, 7000}) {
      std::vector<double> sums(static_cast<std::size_t>(count), 0.0);
      std::set<double> firsts;
      for (int rank = 0; rank < world; ++rank) {
        const std::vector<double> own =
            unpack_numbers(RankWork("", rank_of(rank, world)).run(transport_task(count, {})));
        REQUIRE(own.size() == sums.size());
        for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
        if (count > 0) firsts.insert(own[0]);
      }
      CHECK(firsts.size() == (count > 0 ? static_cast<std::size_t>(world) : 0));  // no rank's numbers are another's
      RankWork last("", rank_of(world - 1, world));
      CHECK(unpack_numbers(last.run(transport_task(count, sums))).size() == sums.size());
      for (const std::size_t wrong : {std::size_t{0}, sums.size() / 2, sums.size() - 1}) {
        if (sums.empty()) break;
        std::vector<double> other = sums;
        other[wrong] += 1e-4;
        CHECK(unpack_numbers(last.run(transport_task(3, other))).empty());
      }
    }
  CHECK(unpack_numbers(RankWork("", rank_of(0, 1)).run(transport_task(7001, {}))).empty());
}

TEST_CASE("a rank opens the device that it was given, and measures the point that it was told") {
  RankWork work(PLAN_PLUGIN_DOUBLE, {.rank = 1, .world = 3, .local_rank = 1, .local_world = 2});
  plan_probe_point gemm{};
  gemm.kind = PLAN_PROBE_GEMM, gemm.format = PLAN_PROBE_BF16, gemm.number[0] = gemm.number[1] = gemm.number[2] = 4096;
  CHECK(unpack_result(work.run(measure_task(gemm)))->error == "no device is open");
  const Result<plan_probe_device> device = unpack_device(work.run(open_task({0, 2, 1})));
  REQUIRE(device.has_value());
  CHECK(std::string(device->name) == "NVIDIA H100 80GB HBM3");
  CHECK(std::string(device->uuid) == "GPU-00000001-0000-0000-0000-000000000000");
  CHECK(std::string(device->capability) == "9.0");
  CHECK(std::string(device->runtime) == "13.0");
  CHECK(std::string(device->nccl) == "2.28.9");
  CHECK(device->total_bytes == 85520809984);
  CHECK(device->free_bytes == 84000000000);
  CHECK(device->l2_bytes == 52428800);
  CHECK(device->sm_count == 132);
  CHECK(device->devices == 2);
  const auto seconds = [&](const plan_probe_point& point) {
    const Result<RankResult> r = unpack_result(work.run(measure_task(point)));
    REQUIRE(r.has_value());
    CHECK(r->status == PLAN_PROBE_OK);
    return r->data.count > 4 ? r->data.seconds[4] : 0;
  };
  // Times of the stand-in follow its law: each number of a point counts, and what costs nothing there costs nothing
  // here.
  const double once = seconds(gemm) - 2.8e-6;
  for (int i = 0; i < 3; ++i) {
    plan_probe_point longer = gemm;
    longer.number[i] *= 2;
    CHECK(seconds(longer) - 2.8e-6 == doctest::Approx(2 * once).epsilon(0.02));
  }
  plan_probe_point fp8 = gemm;
  fp8.format = PLAN_PROBE_FP8;
  CHECK(seconds(fp8) - 2.8e-6 == doctest::Approx(once / 2).epsilon(0.02));
  plan_probe_point attention{};
  attention.kind = PLAN_PROBE_ATTENTION;
  for (int i = 0; i < 5; ++i) attention.number[i] = 64;
  plan_probe_point backward = attention;
  backward.orientation = 1;
  CHECK(seconds(backward) > seconds(attention));
  plan_probe_point memory{};
  memory.kind = PLAN_PROBE_NCCL_MEMORY;
  const auto taken = [&](int op) {
    memory.op = op;
    return unpack_result(work.run(measure_task(memory)))->data.value[0];
  };
  CHECK(taken(-1) == 5e7);
  CHECK(taken(2) == 4e8);
  std::string more = measure_task(gemm) + '\0';
  CHECK(unpack_result(work.run(more))->status == PLAN_PROBE_FAILED);
  CHECK(unpack_result(work.run(Packer().number(77).take()))->status == PLAN_PROBE_FAILED);
  CHECK(unpack_result(work.run(join_task(std::string(PLAN_PROBE_ID_BYTES, 7))))->status == PLAN_PROBE_OK);
  CHECK(unpack_result(work.run(join_task(std::string(PLAN_PROBE_ID_BYTES, 8))))->status != PLAN_PROBE_OK);
  work.abort();
  CHECK(unpack_result(work.run(measure_task(gemm)))->status == PLAN_PROBE_ABORTED);
}

TEST_CASE("a rank counts among the collectives at the place that it was given") {
  for (int place = 0; place < 3; ++place)
    for (int faulty = 0; faulty < 3; ++faulty) {
      // The stand-in fails at its third product where its rank is the faulty one.
      setenv("PLUGIN_DOUBLE", fmt::format("fail:{}", faulty).c_str(), 1);
      RankWork work(PLAN_PLUGIN_DOUBLE, rank_of(1, 3));
      REQUIRE(unpack_device(work.run(open_task({(place + 1) % 3, place, (place + 2) % 3}))).has_value());
      plan_probe_point gemm{};
      gemm.kind = PLAN_PROBE_GEMM;
      int status = PLAN_PROBE_OK;
      for (int i = 0; i < 3; ++i) status = unpack_result(work.run(measure_task(gemm)))->status;
      CHECK(status == (place == faulty ? PLAN_PROBE_LOST : PLAN_PROBE_OK));
      unsetenv("PLUGIN_DOUBLE");
    }
}

TEST_CASE("every rank that does not fit to rank 0 is named once for each thing in which it differs") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<RankHello> ranks(1 + random() % 5);
    for (RankHello& h : ranks) {
      const auto one_of = [&](const char* a, const char* b) { return std::string(random() % 4 == 0 ? b : a); };
      h = {.version = one_of("1", "2"), .host = one_of("n1", "n2"), .gpu = 0, .gpu_name = one_of("H100", "A100")};
      h.gpu_uuid = random() % 3 == 0 ? "" : fmt::format("GPU-{}", random() % 6);
      h.driver = one_of("580.1", "570.2"), h.environment = one_of("", "NCCL_DEBUG=INFO");
      if (random() % 3 == 0) h.driver = "580.9";  // of the same branch
    }
    std::size_t shared = 0;
    std::set<std::string> uuids;
    for (const RankHello& h : ranks) shared += !h.gpu_uuid.empty() && !uuids.insert(h.gpu_uuid).second ? 1 : 0;
    const auto first = [&](auto of) {
      for (std::size_t r = 1; r < ranks.size(); ++r)
        if (of(ranks[r]) != of(ranks[0])) return static_cast<int>(r);
      return 0;
    };
    const int version = first([](const RankHello&h) { return h.version; }),
              gpu = first([](const RankHello&h) { return h.gpu_name; }),
              driver = first([](const RankHello&h) { return h.driver.substr(0, 3); }),
              variables = first([](const RankHello&h) { return h.environment; });
    for (const bool different : {false, true}) {
      const Errors errors = inconsistencies(ranks, different);
      const auto names = [&](int rank, const char* what) {
        const std::string begin = fmt::format("rank {} (", rank), end = fmt::format("differ in {}", what);
        return std::count_if(errors.begin(), errors.end(),
                             [&](const Error& e) { return e.message.starts_with(begin) && e.message.ends_with(end); });
      };
      CHECK(names(version, "the version of plan") == (version > 0 ? 1 : 0));
      CHECK(names(gpu, "the GPU") == (gpu > 0 && !different ? 1 : 0));
      CHECK(names(driver, "the driver") == (driver > 0 ? 1 : 0));
      const std::size_t others = (version > 0 ? 1 : 0) + (gpu > 0 && !different ? 1 : 0) + (driver > 0 ? 1 : 0);
      CHECK(errors.size() == shared + others);
      for (const Error& e : errors) CHECK_FALSE(e.help.empty());
    }
    CHECK(differences(ranks).size() == (gpu > 0 ? 1u : 0u) + (variables > 0 ? 1u : 0u));
  }
}

TEST_CASE("variables of the network are those of NCCL, libfabric and UCX, but for what names one rank") {
  for (const char* name : {"NCCL_TEST_B", "FI_TEST", "UCX_TEST", "NCCL_HOSTID", "NCCL_DEBUG_FILE", "OTHER_NCCL_TEST"})
    setenv(name, "1", 1);
  setenv("NCCL_TEST_A", std::string(1000, 'x').c_str(), 1);
  const std::string all = network_environment();
  CHECK(all.find("FI_TEST=1 NCCL_TEST_A=xxx") != std::string::npos);  // in the order of their names
  CHECK(all.find(std::string(300 - 12, 'x') + " NCCL_TEST_B=1 ") != std::string::npos);
  CHECK(all.find(std::string(300 - 11, 'x')) == std::string::npos);
  CHECK(all.ends_with("UCX_TEST=1"));
  for (const char* name : {"NCCL_HOSTID", "NCCL_DEBUG_FILE", "OTHER_"}) CHECK(all.find(name) == std::string::npos);
  for (const char* name :
       {"NCCL_TEST_A", "NCCL_TEST_B", "FI_TEST", "UCX_TEST", "NCCL_HOSTID", "NCCL_DEBUG_FILE", "OTHER_NCCL_TEST"})
    unsetenv(name);
}
