#include "hwprobe/sweep/sweep.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "hwprobe/sweep/sweep_shapes.hpp"

using namespace plan;

namespace {

SweepRequest request(int ranks, int per_node, Depth depth, double budget) {
  SweepRequest r{.ranks = ranks, .ranks_per_node = per_node, .depth = depth, .budget_s = budget};
  Gpu& gpu = r.expected.gpu;
  gpu.memory = round_bytes(80 * kGiB);
  gpu.peak.fill(FlopsPerSecond(9.9e14));
  gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  gpu.scale_up = BytesPerSecond(4.5e11);
  gpu.nic = BytesPerSecond(5e10);
  gpu.host_link = BytesPerSecond(6e10);
  r.expected.tiers = {{.name = "nvlink", .size = 8, .bandwidth = gpu.scale_up},
                      {.name = "net", .size = 1 << 20, .bandwidth = gpu.nic}};
  return r;
}

Model dense() {
  Model model;
  model.name = "m";
  model.hidden = 4096;
  model.vocab = 32000;
  Layer layer;
  layer.attention = {.heads = 32, .kv_heads = 8, .head_dim = 128};
  layer.dense = {.width = 14336};
  model.kinds = {layer};
  model.layers = {0};
  return model;
}

}  // namespace

TEST_CASE("a sweep keeps its budget and lists what it left out") {
  for (const double budget : {10.0, 45.0, 180.0}) {
    SweepRequest r = request(8, 8, Depth::Standard, budget);
    r.formats = {"bf16", "fp8"};
    const Sweep sweep = plan_sweep(r);
    double sum = 0;
    for (const SweepPoint& p : sweep.points) sum += p.cost_s;
    CHECK(sum == doctest::Approx(sweep.seconds));
    CHECK(sweep.seconds <= budget);
    const Sweep all = plan_sweep([&] {
      SweepRequest free = r;
      free.budget_s = 1e9;
      return free;
    }());
    CHECK(all.points.size() == sweep.points.size() + sweep.skipped.size());
    CHECK(sweep.skipped.empty() == (all.seconds <= budget));
  }
}

TEST_CASE("the quick sweep of one GPU has every part that one GPU can measure") {
  const Sweep sweep = plan_sweep(request(1, 1, Depth::Quick, 45));
  std::set<Section> sections;
  std::set<std::string> ids;
  for (const SweepPoint& p : sweep.points) {
    sections.insert(p.section);
    CHECK(ids.insert(p.id).second);
  }
  for (const Section s :
       {Section::Memory, Section::Bandwidth, Section::Gemm, Section::Attention, Section::Kernels, Section::HostLink})
    CHECK(sections.count(s) == 1);
  CHECK(sections.count(Section::Collectives) == 1);  // the memory of one communicator
  CHECK(std::count_if(sweep.points.begin(), sweep.points.end(),
                      [](const SweepPoint& p) { return p.point.kind == PLAN_PROBE_GEMM; }) >= 81);
}

TEST_CASE("the shapes of a model are those that training executes, and stay when time is short") {
  const std::vector<TrainingGemm> gemms = training_gemms(dense(), 2, 8192);
  CHECK(gemms.size() == 3 * 5);  // qkv, out, gate-up, down, head
  double flops = 0;
  for (const TrainingGemm& g : gemms)
    if (g.orientation == Orientation::Forward) flops += 2 * g.m * g.n * g.k;
  const double weights = 4096.0 * (4096 + 2 * 1024) + 4096.0 * 4096 + 3.0 * 4096 * 14336 + 4096.0 * 32000;
  CHECK(flops == doctest::Approx(2 * 8192 * weights / 2));
  SweepRequest r = request(1, 1, Depth::Quick, 20);
  r.model = dense();
  r.tp = {2};
  r.tokens = 8192;
  const Sweep sweep = plan_sweep(r);
  for (const TrainingGemm& g : gemms)
    CHECK(std::any_of(sweep.points.begin(), sweep.points.end(), [&](const SweepPoint& p) {
      return p.point.kind == PLAN_PROBE_GEMM && p.point.number[0] == static_cast<std::int64_t>(g.m) &&
             p.point.number[1] == static_cast<std::int64_t>(g.n) &&
             p.point.number[2] == static_cast<std::int64_t>(g.k) &&
             p.point.orientation == static_cast<int>(g.orientation);
    }));
}

TEST_CASE("groups are those that plans use") {
  const auto has = [](const std::vector<GroupShape>& shapes, GroupShape s) {
    return std::find(shapes.begin(), shapes.end(), s) != shapes.end();
  };
  CHECK(group_shapes(1, 1).empty());
  CHECK(group_shapes(8, 8) == std::vector<GroupShape>{{2, 2, 1, true}, {4, 4, 1, true}, {8, 8, 1, true}});
  const auto four_nodes = group_shapes(32, 8);
  CHECK(has(four_nodes, {4, 1, 4, true}));
  CHECK(has(four_nodes, {32, 8, 4, true}));
  for (const GroupShape strided : {GroupShape{4, 2, 2, true}, GroupShape{8, 4, 2, true}, GroupShape{8, 2, 4, true},
                                   GroupShape{16, 4, 4, true}})  // some of each node's ranks
    CHECK(has(four_nodes, strided));
  for (const int ranks : {1, 2, 6, 8, 12, 16, 24, 32, 40, 72, 96})
    for (const int per_node : {1, 2, 3, 4, 6, 8, 72}) {
      if (ranks % per_node != 0) continue;
      std::vector<GroupShape> shapes = group_shapes(ranks, per_node);
      for (const GroupShape& s : shapes) {
        CHECK(s.n == s.ranks_per_node * s.nodes);
        CHECK(s.n <= ranks);
        CHECK((s.nodes == 1 || per_node % s.ranks_per_node == 0));  // members stand at one distance
        CHECK(std::count(shapes.begin(), shapes.end(), s) == 1);
      }
    }
  CHECK(has(group_shapes(24, 8), {3, 1, 3, true}));
  CHECK(has(group_shapes(6, 6), {6, 6, 1, true}));
  CHECK(has(group_shapes(4, 1), {4, 1, 4, true}));
}

TEST_CASE("copies between GPUs, which leave a context of every rank on each of them, come last") {
  for (const int ranks : {2, 8, 16}) {
    const Sweep sweep = plan_sweep(request(ranks, std::min(ranks, 8), Depth::Standard, 1e9));
    bool copied = false;
    for (const SweepPoint& p : sweep.points) {
      copied = copied || p.point.kind == PLAN_PROBE_PAIR;
      CHECK(copied == (p.point.kind == PLAN_PROBE_PAIR));
    }
    CHECK(copied);
  }
}

TEST_CASE("what an earlier probe measured is not measured again") {
  SweepRequest r = request(1, 1, Depth::Quick, 45);
  const Sweep all = plan_sweep(r);
  for (const SweepPoint& p : all.points)
    if (p.section == Section::Gemm) r.done.push_back(p.id);
  const Sweep rest = plan_sweep(r);
  CHECK(std::none_of(rest.points.begin(), rest.points.end(),
                     [](const SweepPoint& p) { return p.section == Section::Gemm; }));
  CHECK(rest.points.size() + r.done.size() == all.points.size());
}

// A GPU that grows warm while it is measured would otherwise seem slower at large sizes, or at small ones.
TEST_CASE("the points of a section but for the collectives come in no order of their cost") {
  const Sweep sweep = plan_sweep(request(1, 1, Depth::Thorough, 1e9));
  int sections = 0;
  for (int section = 0; section < kSections; ++section) {
    std::vector<double> costs;
    for (const SweepPoint& point : sweep.points)
      if (static_cast<int>(point.section) == section) costs.push_back(std::log(point.cost_s));
    const auto n = static_cast<double>(costs.size());
    if (section == static_cast<int>(Section::Collectives) || n < 30) continue;
    ++sections;
    const double mean = std::accumulate(costs.begin(), costs.end(), 0.0) / n;
    double with_place = 0, alone = 0;
    for (std::size_t i = 0; i < costs.size(); ++i)
      with_place += (static_cast<double>(i) - (n - 1) / 2) * (costs[i] - mean), alone += std::pow(costs[i] - mean, 2);
    CAPTURE(section);
    CAPTURE(n);
    const double correlation = with_place / std::sqrt(alone * n * (n * n - 1) / 12);
    CHECK(std::abs(correlation) < 0.3);
  }
  CHECK(sections >= 2);
}
