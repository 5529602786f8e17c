#include "hwprobe/profile/compare.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "formulas/efficiency.hpp"
#include "full_profile.hpp"

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
  for (const FigureChange& c : compare_profiles(node(1), node(1.015))) CHECK_FALSE(c.beyond_noise);
}

TEST_CASE("what the data sheet expects has the shape of what was measured") {
  Cluster cluster;
  cluster.gpu.peak.fill(FlopsPerSecond(9.9e14));
  cluster.gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  cluster.gpu.scale_up = BytesPerSecond(4.5e11);
  cluster.tiers = {{.name = "nvlink", .size = 8, .bandwidth = cluster.gpu.scale_up}};
  const auto changes = compare_profiles(expected_profile(node(1), cluster), node(1));
  CHECK(changes.size() == 4);  // no host link on the data sheet
  for (const FigureChange& c : changes) CHECK(std::abs(c.better) < 0.6);
}

TEST_CASE("every part of what is expected is the cluster's own, and none is what was measured") {
  const HardwareProfile measured = full_profile();
  Cluster cluster;
  cluster.name = "expected";
  Gpu& gpu = cluster.gpu;
  gpu.peak.fill(FlopsPerSecond(9.9e14));
  gpu.memory = round_bytes(64 * kGiB);
  gpu.memory_bandwidth = BytesPerSecond(3.35e12), gpu.memory_efficiency = 0.75;
  gpu.scale_up = BytesPerSecond(4.5e11), gpu.host_link = BytesPerSecond(6e10);
  for (const int way : {0, 1})
    gpu.attention[static_cast<std::size_t>(way)] = {.t0 = Seconds(3e-6 + 1e-6 * way),
                                                    .rate = FlopsPerSecond(5e14 - 1e14 * way)};
  cluster.tiers = {{.name = "nvlink", .size = 8, .bandwidth = gpu.scale_up},
                   {.name = "network", .size = 1 << 20, .bandwidth = BytesPerSecond(5e10)}};
  cluster.gpus_per_node = 8;
  const HardwareProfile expected = expected_profile(measured, cluster);
  CHECK(expected.name == "expected");
  CHECK(expected.memory.usable_gib == 64);
  for (const Measured& copy : {expected.hbm.copy, expected.hbm.triad}) {
    CHECK(copy.value == doctest::Approx(0.9 * 3350));
    CHECK(copy.spread == 0);
  }
  for (const ProfileAttention& a : expected.attention) {
    CHECK(a.fmax_tflops == doctest::Approx(a.backward ? 400 : 500));
    CHECK(a.t0_us == doctest::Approx(a.backward ? 4 : 3));
  }
  for (const ProfileKernel& k : expected.memory_bound) {
    CHECK(k.gb_s == doctest::Approx(0.75 * 3350));
    CHECK(k.spread == 0);
  }
  for (const Measured& way : {expected.host_link.h2d, expected.host_link.d2h}) {
    CHECK(way.value == doctest::Approx(0.88 * 60));
    CHECK(way.spread == 0);
  }
  for (const ProfilePair& pair : expected.pairs) CHECK(pair.gb_s == doctest::Approx(0.88 * 450));
  for (const ProfileTier& tier : expected.tiers) CHECK(tier.measured_gb_s == doctest::Approx(0.96 * tier.per_gpu_gb_s));
  REQUIRE(expected.gemm.size() == measured.gemm.size());
  for (std::size_t i = 0; i < measured.gemm.size(); ++i)
    for (std::size_t p = 0; p < measured.gemm[i].grid.size(); ++p) {
      const GemmPoint &one = expected.gemm[i].grid[p], &was = measured.gemm[i].grid[p];
      CHECK(std::tie(one.m, one.n, one.k) == std::tie(was.m, was.n, was.k));
      CHECK(one.us != was.us);
      CHECK(one.us >= 2 * one.m * one.n * one.k / 9.9e14 * 1e6);
      CHECK(one.spread == 0);
    }
  REQUIRE(expected.collectives.size() == measured.collectives.size());
  for (std::size_t i = 0; i < measured.collectives.size(); ++i) {
    const ProfileCurve& curve = expected.collectives[i];
    const bool across = curve.layout.nodes > 1 && curve.layout.ranks_per_node == 1;
    for (std::size_t p = 0; p < curve.table.size(); ++p) {
      const CurvePoint& one = curve.table[p];
      CHECK(one.bytes == measured.collectives[i].table[p].bytes);
      CHECK(one.spread == 0);
      CHECK(
          one.us ==
          doctest::Approx(
              collective_time(cluster, curve.op, RealBytes(one.bytes), {curve.layout.n, across ? 8 : 1}).value * 1e6));
    }
  }
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

namespace {

/// A figure of the full profile, counted by hand: where it stands, and how it scales.
struct Known {
  std::string what, unit;
  double value = 0, spread = 0;
  std::function<double*(HardwareProfile&)> of{};
  bool inverse = false;  ///< the place is a time, of which more is worse
  bool time = false;     ///< and the figure too
};

std::vector<Known> figures_of(const HardwareProfile& p) {
  std::vector<Known> all;
  const auto add = [&](std::string what, std::string unit, double value, double spread,
                       std::function<double*(HardwareProfile&)> of, bool inverse = false, bool time = false) {
    all.push_back({std::move(what), std::move(unit), value, spread, std::move(of), inverse, time});
  };
  add("memory usable", "GiB", 79, 0, [](HardwareProfile& q) { return &q.memory.usable_gib; });
  add("memory copy", "GB/s", 2990, 0.003, [](HardwareProfile& q) { return &q.hbm.copy.value; });
  add("memory triad", "GB/s", 3010, 0.002, [](HardwareProfile& q) { return &q.hbm.triad.value; });
  const char* orientations[] = {"tn", "nn", "nt"};
  for (std::size_t i = 0; i < p.gemm.size(); ++i) {
    const std::string kind = "GEMM " + p.gemm[i].format + " " + orientations[i % 3];
    add(
        kind + " 8kx8kx8k", "TFLOP/s", 2 * std::pow(8192.0, 3) / 1500e-6 / 1e12, 0.006,
        [i](HardwareProfile& q) { return &q.gemm[i].grid[1].us; }, true);
    add(kind + " sustained", "TFLOP/s", 610, 0, [i](HardwareProfile& q) { return &q.gemm[i].sustained_tflops; });
  }
  for (std::size_t i = 0; i < p.attention.size(); ++i) {
    const int dim = p.attention[i].head_dim;
    add(fmt::format("attention {} d{}", i < 2 ? "fwd" : "bwd", dim), "TFLOP/s", 400 + dim, 0,
        [i](HardwareProfile& q) { return &q.attention[i].fmax_tflops; });
  }
  for (std::size_t i = 0; i < p.memory_bound.size(); ++i)
    add(p.memory_bound[i].op, "GB/s", 2400, 0.01, [i](HardwareProfile& q) { return &q.memory_bound[i].gb_s; });
  add("host to device", "GB/s", 55, 0.01, [](HardwareProfile& q) { return &q.host_link.h2d.value; });
  add("device to host", "GB/s", 50, 0.01, [](HardwareProfile& q) { return &q.host_link.d2h.value; });
  for (std::size_t i = 0; i < p.pairs.size(); ++i)
    add(fmt::format("GPU {} to {}", p.pairs[i].from, p.pairs[i].to), "GB/s", 390.0 + static_cast<double>(i), 0,
        [i](HardwareProfile& q) { return &q.pairs[i].gb_s; });
  for (std::size_t i = 0; i < p.tiers.size(); ++i)
    add("tier " + p.tiers[i].id, "GB/s", i == 0 ? 360 : 46, 0,
        [i](HardwareProfile& q) { return &q.tiers[i].measured_gb_s; });
  for (std::size_t i = 0; i < p.collectives.size(); ++i) {
    const ProfileCurve& c = p.collectives[i];
    const std::string kind = (c.op == Collective::AllReduce ? "all_reduce " : "all_gather ") +
                             std::string(c.layout.nodes > 1 ? "2x1 " : "n=8 ");
    // Bus bandwidth of nccl-tests: doc/PERFORMANCE.md there.
    const double n = c.layout.n, factor = (c.op == Collective::AllReduce ? 2 : 1) * (n - 1) / n;
    add(
        kind, "GB/s", std::exp2(29) * factor / 1300e-6 / 1e9, 0.01,
        [i](HardwareProfile& q) { return &q.collectives[i].table[2].us; }, true);
    add(
        kind, "us", 11, 0.01, [i](HardwareProfile& q) { return &q.collectives[i].table[0].us; }, true, true);
  }
  return all;
}

}  // namespace

TEST_CASE("every figure that two profiles hold is compared, by its own number alone") {
  const HardwareProfile before = full_profile();
  const std::vector<Known> known = figures_of(before);
  const std::vector<FigureChange> same = common_figures(before, before);
  REQUIRE(same.size() == known.size());
  for (std::size_t i = 0; i < known.size(); ++i) {
    const Known& figure = known[i];
    CAPTURE(figure.what);
    CHECK(same[i].what.starts_with(figure.what));
    CHECK(same[i].unit == figure.unit);
    CHECK(same[i].before == doctest::Approx(figure.value));
    CHECK(same[i].now == same[i].before);
    CHECK(same[i].better == 0);
    CHECK_FALSE(same[i].beyond_noise);
    for (const double factor : {0.5, 0.9, 0.965, 0.985, 1.015, 1.025, 1.035, 1.3, 4.0}) {
      CAPTURE(factor);
      HardwareProfile now = before;
      *figure.of(now) *= factor;
      const std::vector<FigureChange> changes = common_figures(before, now);
      REQUIRE(changes.size() == known.size());
      const double better = (figure.inverse ? 1 / factor : factor) - 1;
      CHECK(changes[i].better == doctest::Approx(better));
      CHECK(changes[i].now == doctest::Approx(figure.value * (figure.time || !figure.inverse ? factor : 1 / factor)));
      CHECK(changes[i].spread == figure.spread);
      CHECK(changes[i].beyond_noise == (std::abs(better) > std::max(0.03, 2 * figure.spread)));
      for (std::size_t other = 0; other < changes.size(); ++other)
        if (other != i) CHECK(changes[other].better == 0);
      const std::vector<FigureChange> sorted = compare_profiles(before, now);
      CHECK(std::is_sorted(sorted.begin(), sorted.end(),
                           [](const FigureChange& a, const FigureChange& b) { return a.better < b.better; }));
      CHECK((better < 0 ? sorted.front() : sorted.back()).what == changes[i].what);  // of twins either
    }
    HardwareProfile lacks = before;
    *figure.of(lacks) = 0;
    if (figure.inverse) continue;  // a time of nought is in no profile
    CHECK(common_figures(before, lacks).size() == known.size() - 1);
    CHECK(common_figures(lacks, before).size() == known.size() - 1);
  }
}

TEST_CASE("of two profiles those figures are compared that are of one kind") {
  const HardwareProfile before = full_profile();
  const std::size_t all = common_figures(before, before).size();
  const auto without = [&](const std::function<void(HardwareProfile&)>& edit) {
    HardwareProfile now = before;
    edit(now);
    CHECK(common_figures(now, before).size() == common_figures(before, now).size());
    return all - common_figures(before, now).size();
  };
  CHECK(without([](HardwareProfile& p) { p.gemm[0].format = "another"; }) == 2);
  CHECK(without([](HardwareProfile& p) { p.gemm.pop_back(); }) == 2);
  CHECK(without([](HardwareProfile& p) { p.gemm[0].grid.clear(); }) == 1);
  CHECK(without([](HardwareProfile& p) { p.attention[0].head_dim = 256; }) == 1);
  CHECK(without([](HardwareProfile& p) { p.memory_bound[0].op = "another"; }) == 1);
  CHECK(without([](HardwareProfile& p) { p.pairs[0].to = 9; }) == 1);
  CHECK(without([](HardwareProfile& p) { p.tiers[0].id = "another"; }) == 1);
  CHECK(without([](HardwareProfile& p) { p.tiers[0].id.clear(); }) == 1);
  CHECK(without([](HardwareProfile& p) { p.collectives[0].dtype = "fp8"; }) == 2);
  CHECK(without([](HardwareProfile& p) { p.collectives[0].layout.n = 4; }) == 2);
  CHECK(without([](HardwareProfile& p) { p.collectives[0].op = Collective::SendRecv; }) == 2);
  CHECK(without([](HardwareProfile& p) { p.collectives[0].table.resize(1); }) == 1);  // one size is one figure
  CHECK(without([](HardwareProfile& p) { p.collectives[0].table.clear(); }) == 2);
}

TEST_CASE("of every part of a node the data sheet lets expect most of what it states, and nothing beyond") {
  Cluster cluster;
  cluster.name = "sheet";
  Gpu& gpu = cluster.gpu;
  for (int i = 0; i < kDTypes; ++i) gpu.peak[static_cast<std::size_t>(i)] = FlopsPerSecond(1e13 * std::pow(3, i));
  gpu.memory = Bytes(std::int64_t{80} << 30);
  gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  gpu.scale_up = BytesPerSecond(4.5e11);
  gpu.host_link = BytesPerSecond(6.4e10);
  gpu.attention = {AttentionFit{.t0 = Seconds(5e-6), .rate = FlopsPerSecond(5e14)},
                   AttentionFit{.t0 = Seconds(7e-6), .rate = FlopsPerSecond(3e14)}};
  cluster.tiers = {{.name = "nvlink", .size = 8, .bandwidth = gpu.scale_up},
                   {.name = "net", .size = 1 << 20, .bandwidth = BytesPerSecond(5e10)}};
  const HardwareProfile expected = expected_profile(full_profile(), cluster);
  const auto most_of = [](double expects, double states) {
    CHECK(expects <= states);
    CHECK(expects > 0.5 * states);
  };
  CHECK(expected.name == "sheet");
  CHECK(expected.memory.usable_gib == 80);
  most_of(expected.hbm.copy.value, 3350);
  most_of(expected.hbm.triad.value, 3350);
  most_of(expected.host_link.h2d.value, 64);
  most_of(expected.host_link.d2h.value, 64);
  for (const ProfileKernel& k : expected.memory_bound) most_of(k.gb_s, 3350);
  for (const ProfilePair& p : expected.pairs) most_of(p.gb_s, 450);
  for (const ProfileTier& t : expected.tiers) most_of(t.measured_gb_s, t.per_gpu_gb_s);
  for (const ProfileAttention& a : expected.attention) {
    CHECK(a.fmax_tflops == doctest::Approx(a.backward ? 300 : 500));
    CHECK(a.t0_us == doctest::Approx(a.backward ? 7 : 5));
  }
  const std::map<std::string, DType> types{{"fp32", DType::Fp32}, {"fp16", DType::Fp16}, {"bf16", DType::Bf16},
                                           {"fp8", DType::Fp8},   {"mxfp8", DType::Fp8}, {"nvfp4", DType::Fp4}};
  for (const ProfileGemm& g : expected.gemm) {
    CAPTURE(g.format);
    const double peak = gpu.peak[static_cast<std::size_t>(types.at(g.format))].value / 1e12;
    most_of(2 * std::pow(8192.0, 3) / g.grid[1].us / 1e6, peak);
    most_of(g.sustained_tflops, peak);
    for (const GemmPoint& p : g.grid) CHECK(2 * p.m * p.n * p.k / p.us / 1e6 <= peak);
    for (const GemmPoint& p : g.grid) CHECK(p.spread == 0);
  }
  for (const ProfileCurve& c : expected.collectives) {
    const double n = c.layout.n, factor = (c.op == Collective::AllReduce ? 2 : 1) * (n - 1) / n;
    most_of(c.table[2].bytes * factor / c.table[2].us / 1e3, c.layout.nodes > 1 ? 50 : 450);
    CHECK(c.table[0].us < c.table[1].us);
  }
}
