#include "hwprobe/profile/assemble.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "formulas/efficiency.hpp"
#include "hwprobe/sweep/sweep.hpp"

using namespace plan;

namespace {

/// The machine that the observations come from.
struct Truth {
  GemmFit gemm{.t0 = Seconds(2.8e-6), .rate = FlopsPerSecond(7.65e14), .bandwidth = BytesPerSecond(2.2e12)};
  double copy = 2.99e12;
  std::array<double, 3> host{55e9, 50e9, 90e9};  ///< to the device, to the host, both
  int leaf = 0;  ///< nodes under one switch, beyond which groups of one rank a node are slower; 0: no network
  CollectiveFit gather(int n) const {
    const double rate = leaf == 0 ? 3.6e11 : n <= leaf ? 4.5e10 : 2.0e10;
    return {.op = Collective::AllGather, .ranks = n, .alpha = Seconds(3e-6 + 1e-6 * n), .busbw = BytesPerSecond(rate)};
  }
};

JobFacts facts(int ranks) {
  JobFacts f;
  f.name = "node";
  f.gpu.model = "NVIDIA H100 80GB HBM3";
  f.ranks = f.ranks_per_node = ranks;
  f.source.id = "m1";
  Gpu& gpu = f.expected.gpu;
  gpu.memory = round_bytes(80 * kGiB);
  gpu.peak.fill(FlopsPerSecond(9.9e14));
  gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  gpu.scale_up = BytesPerSecond(4.5e11);
  f.expected.tiers = {{.name = "nvlink", .size = 8, .bandwidth = gpu.scale_up}};
  return f;
}

/// What eight ranks would report, rank 5 slower than the others by `slow` in compute.
std::vector<Observation> observe(const Sweep& sweep, const Truth& truth, int ranks, double slow) {
  std::vector<Observation> all;
  for (const SweepPoint& p : sweep.points) {
    Observation o{.planned = p};
    const auto number = [&](std::size_t i) { return static_cast<double>(p.point.number[i]); };
    double seconds = p.operation_s;
    if (p.point.kind == PLAN_PROBE_GEMM) {
      const double flops = 2 * number(0) * number(1) * number(2);
      seconds = roofline_time(truth.gemm, Flops(flops),
                              gemm_bytes({number(0), number(1), number(2)}, DType::Bf16,
                                         static_cast<Orientation>(p.point.orientation)))
                    .value;
    }
    if (p.point.kind == PLAN_PROBE_COPY) o.bytes = 2 * number(0), seconds = 3e-6 + o.bytes / truth.copy;
    if (p.point.kind == PLAN_PROBE_HOST_LINK)
      o.bytes = number(1), seconds = o.bytes / truth.host.at(static_cast<std::size_t>(p.point.number[0]));
    if (p.point.kind == PLAN_PROBE_KERNEL)
      o.bytes = kernel_bytes(static_cast<int>(p.point.number[0]), number(1)),
      seconds = 4e-6 + o.bytes / (0.8 * truth.copy);
    if (p.point.kind == PLAN_PROBE_COLLECTIVE && p.point.op == static_cast<int>(Collective::AllGather))
      seconds = curve_time(truth.gather(p.point.group_size), RealBytes(number(0)), p.point.group_size).value;
    for (int r = 0; r < ranks; ++r) {
      o.ranks.push_back(r);
      o.medians.push_back(seconds * (r == 5 && p.section == Section::Gemm ? 1 + slow : 1));
    }
    o.summary = {.count = 9, .median = seconds, .spread = 0.005};
    all.push_back(std::move(o));
  }
  return all;
}

Sweep sweep_for(int ranks) {
  const JobFacts f = facts(ranks);
  return plan_sweep({.expected = f.expected, .ranks = ranks, .ranks_per_node = ranks, .budget_s = 1e9});
}

}  // namespace

TEST_CASE("fits find the machine that the times came from") {
  const Truth truth;
  const HardwareProfile p = assemble(facts(8), observe(sweep_for(8), truth, 8, 0));
  REQUIRE(p.gemm.size() == 3);
  CHECK(p.gemm[0].f_tflops == doctest::Approx(765).epsilon(0.03));
  CHECK(p.gemm[0].w_tb_s == doctest::Approx(2.2).epsilon(0.1));
  CHECK(grade(p.gemm[0].quality) == "A");
  CHECK(p.hbm.copy.value == doctest::Approx(2990).epsilon(0.01));
  CHECK(p.hbm.fixed_us == doctest::Approx(3).epsilon(0.1));
  CHECK(p.host_link.h2d.value == doctest::Approx(55).epsilon(0.001));
  CHECK(p.host_link.all_gpus_h2d.value == doctest::Approx(55).epsilon(0.001));
  CHECK(p.host_link.d2h.value == doctest::Approx(50).epsilon(0.001));
  CHECK(p.host_link.bidir.value == doctest::Approx(90).epsilon(0.001));
  for (const ProfileKernel& k : p.memory_bound) CHECK(k.efficiency == doctest::Approx(0.8).epsilon(0.05));
  int gathers = 0;
  for (const ProfileCurve& c : p.collectives)
    if (c.op == Collective::AllGather) {
      ++gathers;
      CHECK(c.busbw_gb_s == doctest::Approx(360).epsilon(0.03));
      CHECK(c.alpha_us == doctest::Approx(3.0 + c.layout.n).epsilon(0.03));
    }
  CHECK(gathers == 3);
  CHECK(p.warnings.empty());
}

TEST_CASE("copies of a GPU that is alone say nothing of what several reach at once") {
  const HardwareProfile p = assemble(facts(1), observe(sweep_for(1), Truth{}, 1, 0));
  CHECK(p.host_link.h2d.value == doctest::Approx(55).epsilon(0.001));
  CHECK(p.host_link.all_gpus_h2d.value == 0);
}

TEST_CASE("copies between the GPUs of a node are told once for each pair and way, and those of other nodes are not") {
  for (const int nodes : {1, 2}) {
    JobFacts f = facts(4);
    f.ranks = 4 * nodes, f.nodes = nodes;
    std::vector<Observation> all;
    for (int distance = 1; distance < 4; ++distance) {
      Observation o;
      o.planned.section = Section::Pairs;
      o.planned.point.kind = PLAN_PROBE_PAIR, o.planned.point.number[0] = distance;
      o.bytes = 1e9;
      for (int r = 0; r < f.ranks; ++r) o.ranks.push_back(r), o.medians.push_back(1e-3 * (10 * distance + r));
      all.push_back(std::move(o));
    }
    const HardwareProfile p = assemble(f, all);
    REQUIRE(p.pairs.size() == 4 * 3);
    for (const ProfilePair& pair : p.pairs) {
      const int distance = (pair.to - pair.from + 4) % 4;
      CHECK(pair.gb_s == doctest::Approx(1e3 / (10 * distance + pair.from)));
    }
  }
}

TEST_CASE("where larger groups of nodes are slower for good, an upper tier of the fabric begins") {
  JobFacts f = facts(2);
  f.ranks = 16, f.nodes = 8;
  f.expected.tiers.push_back({.name = "network", .size = 1 << 30, .bandwidth = BytesPerSecond(5e10)});
  const Sweep sweep =
      plan_sweep({.expected = f.expected, .ranks = f.ranks, .ranks_per_node = f.ranks_per_node, .budget_s = 1e9});
  const auto tiers = [&](int leaf) { return assemble(f, observe(sweep, {.leaf = leaf}, f.ranks, 0)).tiers; };
  const std::vector<ProfileTier> even = tiers(8);
  REQUIRE(even.size() == 2);
  CHECK(even[1].size == 0);
  CHECK(even[1].measured_gb_s == doctest::Approx(45).epsilon(0.03));
  for (const int leaf : {2, 4}) {
    const std::vector<ProfileTier> fabric = tiers(leaf);
    REQUIRE(fabric.size() == 3);
    CHECK(fabric[1].size == 2 * leaf);
    CHECK(fabric[1].measured_gb_s == doctest::Approx(45).epsilon(0.03));
    CHECK(fabric[2].size == 0);  // as far as there are nodes
    CHECK(fabric[2].measured_gb_s == doctest::Approx(20).epsilon(0.03));
  }
}

TEST_CASE("a slow GPU is named") {
  JobFacts f = facts(8);
  for (int r = 0; r < 8; ++r) f.where.push_back("node02/GPU " + std::to_string(r));
  const HardwareProfile p = assemble(f, observe(sweep_for(8), Truth{}, 8, 0.06));
  REQUIRE(p.warnings.size() == 1);
  CHECK(p.warnings[0].where == "node02/GPU 5");
  CHECK(p.warnings[0].text == "GEMMs ran 6 % below the other GPUs");
}

TEST_CASE("a GPU is slow that is so in three products, by a share that counts") {
  const auto named = [](std::size_t products, double slow) {
    std::vector<Observation> all;
    for (const Observation& o : observe(sweep_for(8), Truth{}, 8, slow))
      if (o.planned.point.kind == PLAN_PROBE_GEMM && all.size() < products) all.push_back(o);
    REQUIRE(all.size() == products);
    return assemble(facts(8), all).warnings.size();
  };
  CHECK(named(3, 0.06) == 1);
  CHECK(named(2, 0.06) == 0);
  CHECK(named(1, 0.5) == 0);
  CHECK(named(20, 0.001) == 0);
  CHECK(named(20, 0) == 0);
}

TEST_CASE("a section whose canary moved by more than 3 % is marked, on which plan-measuring(7) agrees") {
  for (const double moved : {0.0, 2.9, 3.0, 3.1, 50.0}) {
    JobFacts f = facts(8);
    f.conditions.push_back({.section = "gemm", .drift_pct = moved});
    const HardwareProfile p = assemble(f, observe(sweep_for(8), Truth{}, 8, 0));
    CAPTURE(moved);
    REQUIRE(p.warnings.size() == (moved > 3 ? 1 : 0));
    if (moved > 3) CHECK(p.warnings[0].code == "DRIFT");
    CHECK((p.warnings.empty() || p.warnings[0].where == "gemm"));
  }
}

TEST_CASE("a resumed probe measures the rest and ends with the whole") {
  const Sweep all = sweep_for(8);
  std::vector<Observation> seen = observe(all, Truth{}, 8, 0);
  const HardwareProfile whole = assemble(facts(8), seen);
  std::vector<Observation> half(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2));
  HardwareProfile earlier = assemble(facts(8), half);
  SweepRequest request{.expected = facts(8).expected, .ranks = 8, .ranks_per_node = 8, .budget_s = 1e9};
  request.done = measured_points(earlier);
  const Sweep rest = plan_sweep(request);
  CHECK(rest.points.size() < all.points.size());
  HardwareProfile resumed = assemble(facts(8), observe(rest, Truth{}, 8, 0));
  earlier.conditions = {{.section = "gemm", .samples = 3}};
  earlier.nccl_channels.collective = 16;
  merge_profile(resumed, earlier);
  CHECK(resumed.conditions.size() == 1);
  CHECK(resumed.nccl_channels.collective == 16);
  std::size_t attention = 0, all_attention = 0;
  for (const ProfileAttention& a : resumed.attention) attention += a.grid.size();
  for (const ProfileAttention& a : whole.attention) all_attention += a.grid.size();
  CHECK(attention == all_attention);
  CHECK(resumed.collectives.size() == whole.collectives.size());
  std::size_t points = 0, wanted = 0;
  for (const ProfileGemm& g : resumed.gemm) points += g.grid.size();
  for (const ProfileGemm& g : whole.gemm) wanted += g.grid.size();
  CHECK(points == wanted);
}
