#include "hwprobe/compare.hpp"

#include <doctest/doctest.h>

using namespace plan;

namespace {
HardwareProfile node(double slower) {
  HardwareProfile p;
  p.hbm.copy = {2990, 0.003};
  p.host_link.h2d = {55.4 / slower, 0.01};
  p.collectives = {{.op = Collective::AllGather,
                    .dtype = "bf16",
                    .layout = {8, 8, 1, true},
                    .table = {{512, 10, 0.1}, {536870912, 1300 * slower, 0.01}}}};
  p.gemm = {{.format = "bf16", .grid = {{8192, 8192, 8192, 1500, 0.006}}}};
  return p;
}
}  // namespace

TEST_CASE("the worst change comes first and noise is no change") {
  const auto changes = compare_profiles(node(1), node(1.12));
  REQUIRE(changes.size() == 5);
  CHECK(changes[0].beyond_noise);
  CHECK(changes[0].better == doctest::Approx(1 / 1.12 - 1));
  CHECK(changes[1].beyond_noise);
  CHECK(changes[2].better == 0);
  CHECK_FALSE(changes[2].beyond_noise);
  for (const Change& c : compare_profiles(node(1), node(1.015))) CHECK_FALSE(c.beyond_noise);
}

TEST_CASE("what the data sheet expects has the shape of what was measured") {
  Cluster cluster;
  cluster.gpu.peak.fill(FlopsPerSecond(9.9e14));
  cluster.gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  cluster.gpu.scale_up = BytesPerSecond(4.5e11);
  cluster.tiers = {{.name = "nvlink", .size = 8, .bandwidth = cluster.gpu.scale_up}};
  const auto changes = compare_profiles(expected_profile(node(1), cluster), node(1));
  CHECK(changes.size() == 4);  // no host link on the data sheet
  for (const Change& c : changes) CHECK(std::abs(c.better) < 0.6);
}

TEST_CASE("the rates that a data sheet lets expect are a good part of its peaks, format by format, and none is more") {
  Cluster cluster;
  for (int i = 0; i < kDTypes; ++i) cluster.gpu.peak[i] = FlopsPerSecond(5e14 * (i + 1));
  cluster.gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  HardwareProfile measured;
  for (const char* format : {"bf16", "fp16"})
    measured.gemm.push_back({.format = format, .sustained_tflops = 1, .burst_tflops = 1});
  measured.gemm.push_back({.format = "bf16"});  // of which no rate was held: none is expected
  const HardwareProfile expected = expected_profile(measured, cluster);
  const auto peak = [&](DType type) { return cluster.gpu.peak[static_cast<std::size_t>(type)].value / 1e12; };
  for (const auto& [at, type] : {std::pair{0, DType::Bf16}, std::pair{1, DType::Fp16}}) {
    const ProfileGemm& gemm = expected.gemm[static_cast<std::size_t>(at)];
    CHECK(gemm.sustained_tflops > 0.3 * peak(type));
    CHECK(gemm.sustained_tflops <= gemm.burst_tflops);
    CHECK(gemm.burst_tflops <= peak(type));
  }
  CHECK(expected.gemm[2].sustained_tflops == 0);
}
