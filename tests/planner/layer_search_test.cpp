// Strategies of runs of layers: the search finds what trying every strategy of every layer finds; where layers are
// alike, so is what they do; and no layout whose layers do alike is faster than what it answers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "draw.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/galvatron.hpp"
#include "planner/rules/rules.hpp"
#include "planner/stages/layer_search.hpp"
#include "planner/stages/per_layer.hpp"

using namespace plan;

namespace {

constexpr Seconds kForever = Seconds::infinity();

/// Layers of up to three widths, in any order.
Problem small_job(std::mt19937& random, int layers) {
  Problem problem;
  problem.model = oracle::dense_model(layers, 1024, 8, 8, 4096, pick(random, {512, 8000, 64000}));
  problem.model.tied = random() % 3 == 0;
  problem.cluster = oracle::plain_cluster();
  problem.cluster.tiers = {{"nvlink", 8, BytesPerSecond(450e9)}, {"network", 1 << 20, BytesPerSecond(50e9)}};
  if (random() % 3 == 0) problem.cluster.tiers.front().bandwidth = BytesPerSecond(5e9);
  problem.training.seq = pick(random, {512, 2048});
  problem.framework = Framework::None;
  if (random() % 2 == 0) {
    problem.model.kinds.push_back(problem.model.kinds.front());
    problem.model.kinds.back().dense.width *= pick(random, {2, 8});
    for (int& kind : problem.model.layers) kind = static_cast<int>(random() % 2);
  }
  return problem;
}

/// A pipeline with the layers of its stages, its first replica the largest.
Layout small_pipeline(std::mt19937& random, Problem& problem) {
  Layout base;
  base.pp = pick(random, {1, 1, 2}), base.tp = pick(random, {1, 2, 4}), base.cp = pick(random, {1, 1, 2});
  if (random() % 2 == 0) base.cp_kind = CpKind::Ulysses;
  const int replica = base.tp * base.cp;
  base.dp = pick(random, {1, 2, 4}), base.zero = pick(random, {0, 2});
  base.micro_batch = replica * pick(random, {1, 2});
  base.sequence_parallel = base.tp > 1;
  if (base.pp > 1 && random() % 4 == 0) base.schedule = Schedule::GPipe;
  problem.gpus = base.world();
  problem.training.global_batch = base.dp * base.micro_batch * pick(random, {1, 2, 3, 8});
  const int front = base.pp == 1 ? problem.model.depth() : 1 + static_cast<int>(random() % 2);
  base.chunk_layers = {front};
  if (base.pp == 2) base.chunk_layers.push_back(problem.model.depth() - front);
  return base;
}

/// Ways of layers whose replicas have as many GPUs as the pipeline's at most, or fewer.
std::vector<StageStrategy> some_ways(std::mt19937& random, const Layout& base, std::size_t most) {
  std::vector<StageStrategy> ways;
  const int widest = base.tp * base.cp;
  for (int tp = 1; tp <= widest; tp *= 2)
    for (int cp = 1; tp * cp <= widest; cp *= 2)
      for (const int zero : {-1, 3})
        for (const bool rebuilt : {false, true}) {
          ways.push_back({.tp = tp == base.tp ? 0 : tp, .zero = zero, .cp = cp == base.cp ? 0 : cp});
          if (rebuilt) ways.back().recompute = {.kind = RecomputeKind::Full};
        }
  std::shuffle(ways.begin(), ways.end(), random);
  ways.resize(std::min(ways.size(), most));
  return ways;
}

/// The layout in which every layer does its own; neighbours that do the same are one run.
Layout with_ways(const Layout& base, const std::vector<StageStrategy>& ways, const std::vector<int>& way_of) {
  Layout layout = base;
  std::size_t layer = 0;
  for (const int count : base.chunk_layers) {
    std::vector<StageStrategy> runs;
    int before = -1;
    for (const std::size_t end = layer + static_cast<std::size_t>(count); layer < end; ++layer) {
      if (way_of[layer] != before) runs.push_back(ways[static_cast<std::size_t>(way_of[layer])]);
      before = way_of[layer];
      ++runs.back().layers;
    }
    runs.back().layers = 0;
    layout.stages.push_back(runs.front());
    layout.stages.back().behind.assign(runs.begin() + 1, runs.end());
  }
  return layout;
}

/// All ways of all layers, one by one.
std::optional<Score> brute_force(StageModels& models, const Problem& problem, const Layout& base,
                                 const std::vector<StageStrategy>& ways, RealBytes capacity) {
  std::optional<Score> best;
  std::vector<int> way_of(static_cast<std::size_t>(problem.model.depth()), 0);
  for (bool more = true; more;) {
    const Score score = score_stages(models, problem, with_ways(base, ways, way_of));
    if (score.peak <= capacity && (!best || score.step_time < best->step_time)) best = score;
    more = false;
    for (int& way : way_of) {
      way = (way + 1) % static_cast<int>(ways.size());
      if (way > 0) {
        more = true;
        break;
      }
    }
  }
  return best;
}

/// Peaks of the least and of the most that all layers alike take.
std::pair<RealBytes, RealBytes> peaks(StageModels& models, const Problem& problem, const Layout& base,
                                      const std::vector<StageStrategy>& ways) {
  RealBytes low = RealBytes::infinity(), high;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const std::vector<int> all(static_cast<std::size_t>(problem.model.depth()), static_cast<int>(way));
    const RealBytes peak = score_stages(models, problem, with_ways(base, ways, all)).peak;
    low = std::min(low, peak), high = std::max(high, peak);
  }
  return {low, high};
}

}  // namespace

TEST_CASE("per layer: the search finds what every strategy of every layer finds") {
  std::mt19937 random(31);
  int mixed = 0, none = 0, tried = 0, contexts = 0;
  for (int round = 0; round < oracle::rounds(2000); ++round) {
    const bool two = random() % 4 == 0;  // ways of many layers, or more of them of few
    Problem problem = small_job(random, two ? pick(random, {6, 7, 8}) : pick(random, {3, 4, 5}));
    const Layout base = small_pipeline(random, problem);
    const int depth = problem.model.depth();
    const std::vector<StageStrategy> ways = some_ways(random, base, two ? 2 : depth == 5 ? 3 : 4);
    if (!stages_fault(problem, with_ways(base, ways, std::vector<int>(static_cast<std::size_t>(depth), 0))).empty())
      continue;
    CAPTURE(round);
    ++tried;
    StageModels models(problem);
    const auto [low, high] = peaks(models, problem, base, ways);
    const RealBytes capacity = low * 0.95 + (high * 1.05 - low * 0.95) * static_cast<double>(random() % 1000) / 1000;
    const std::optional<Score> brute = brute_force(models, problem, base, ways, capacity);
    const StageSearch result = best_runs(models, problem, base, ways, capacity, kForever, 1 << 20);
    CHECK(result.exact);
    REQUIRE(result.best.has_value() == brute.has_value());
    if (!brute) {
      ++none;
      continue;
    }
    CHECK(result.best->score.peak <= capacity);
    CHECK(result.best->score.step_time / brute->step_time == doctest::Approx(1).epsilon(1e-9));
    CHECK(estimate(problem, result.best->layout).step_time / result.best->score.step_time ==
          doctest::Approx(1).epsilon(1e-9));
    if (!result.best->layout.stages.empty()) ++mixed;
    if (have_context(ways) || base.cp > 1) ++contexts;
  }
  CHECK(tried > oracle::at_least(1000));
  CHECK(mixed > oracle::at_least(300));
  CHECK(none > oracle::at_least(10));
  CHECK(contexts > oracle::at_least(300));
}

TEST_CASE("per layer: equal layers with memory to spare do alike") {
  std::mt19937 random(32);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(300); ++round) {
    Problem problem = small_job(random, 8);
    problem.model = oracle::dense_model(8, 2048, 16, 16, 8192, 512);  // ends that weigh next to nothing
    Layout base = small_pipeline(random, problem);
    base.chunk_layers.assign(static_cast<std::size_t>(base.pp), 8 / base.pp);
    std::vector<StageStrategy> ways = some_ways(random, base, 4);
    const bool one_split = round % 2 == 0;
    if (one_split)
      for (StageStrategy& way : ways) way.zero = -1, way.tp = 0, way.cp = 0;
    const std::vector<int> first(8, 0);
    if (!stages_fault(problem, with_ways(base, ways, first)).empty()) continue;
    CAPTURE(round);
    ++tried;
    StageModels models(problem);
    Seconds alike = kForever;
    for (int way = 0; way < static_cast<int>(ways.size()); ++way) {
      const std::vector<int> all(8, way);
      alike = std::min(alike, score_stages(models, problem, with_ways(base, ways, all)).step_time);
    }
    const StageSearch found = best_runs(models, problem, base, ways, RealBytes::infinity(), kForever);
    REQUIRE(found.best);
    CHECK(found.best->score.step_time <= alike * (1 + 1e-12));
    // What is left to gain is what overlaps: of a wider replica less is reduced, gathers of ZeRO-3 hide beside the work
    // of their layers, reductions of the others beside the last backward pass. With context ranks beside tensor ranks
    // replicas are wider.
    const double least = base.cp > 1 || have_context(ways) ? 0.9 : 0.95;
    CHECK(found.best->score.step_time > (one_split ? 1 - 1e-9 : least) * alike);
  }
  CHECK(tried > oracle::at_least(100));
}

TEST_CASE("per layer: what is answered runs on Galvatron, fits, and is faster than layers that are all the same") {
  std::mt19937 random(33);
  int faster = 0, tried = 0;
  for (int round = 0; round < oracle::rounds(120); ++round) {
    Problem problem = oracle::random_problem(random, 8);
    if (round % 2 == 0) problem = oracle::widened(problem, random);
    problem.framework = Framework::Any, problem.threads = 1;
    problem.fixed = {};
    const Result<Plan> plan = search(problem);
    if (!plan) continue;
    const PerLayer found = per_layer(*plan);
    ++tried;
    CAPTURE(round);
    if (!found.best) continue;
    ++faster;
    CHECK(found.best->step_time.value < plan->fastest->step_time.value);
    CHECK(found.best->fits == plan->fastest->fits);
    CHECK(galvatron_lacks(plan->problem, found.best->layout).text.empty());
    CHECK(broken_rule(plan->problem, found.best->layout) < 0);
    CHECK(found.difference.low < found.difference.middle);
    CHECK(found.difference.middle < found.difference.high);
  }
  CHECK(tried > oracle::at_least(40));
  CHECK(faster >= oracle::at_least(5));
}

TEST_CASE("per layer: never worse than layers that are all the same, on stacks of unequal layers") {
  std::mt19937 random(34);
  int tried = 0, unequal = 0, better = 0;
  for (int round = 0; round < oracle::rounds(400); ++round) {
    Problem problem = oracle::widened(oracle::random_problem(random, 8), random);
    problem.framework = Framework::None, problem.fixed = {}, problem.training.offload = {};
    if (problem.training.adapters() || problem.training.local.any()) continue;
    Layout base;
    base.pp = problem.gpus % 2 == 0 && problem.model.depth() > 3 ? pick(random, {1, 2}) : 1;
    base.dp = problem.gpus / base.pp, base.zero = pick(random, {0, 2});
    if (broken_rule(problem, base) >= 0) continue;
    std::vector<StageStrategy> ways;
    for (const int zero : {-1, 3})
      for (const bool rebuilt : {false, true})
        ways.push_back({rebuilt ? Recompute{.kind = RecomputeKind::Full} : Recompute{}, 0, 0, zero});
    CAPTURE(round);
    ++tried;
    if (problem.model.kinds.size() > 1) ++unequal;
    StageModels models(problem);
    Layout placed = base;
    {
      Evaluator evaluator(problem, models.costs(0, base), base);
      placed.chunk_layers = evaluator.stages().chunk_layers;
    }
    if (std::ranges::count(placed.chunk_layers, 0) > 0) continue;  // an end of the pipeline is a stage of its own
    std::vector<Score> alike;
    for (int way = 0; way < static_cast<int>(ways.size()); ++way) {
      const std::vector<int> all(static_cast<std::size_t>(problem.model.depth()), way);
      alike.push_back(score_stages(models, problem, with_ways(placed, ways, all)));
    }
    std::vector<RealBytes> limits;
    for (const Score& score : alike) limits.push_back(score.peak * 1.0000001), limits.push_back(score.peak * 1.05);
    for (const RealBytes capacity : limits) {
      Seconds best = kForever;
      for (const Score& score : alike)
        if (score.peak <= capacity) best = std::min(best, score.step_time);
      if (best == kForever) continue;
      const StageSearch found = best_runs(models, problem, base, ways, capacity, kForever);
      REQUIRE(found.best);
      CHECK(found.best->score.step_time <= best * (1 + 1e-9));
      CHECK(found.best->score.peak <= capacity);
      if (found.best->score.step_time < 0.999 * best) ++better;
    }
  }
  CHECK(tried > oracle::at_least(100));
  CHECK(unequal > oracle::at_least(30));
  CHECK(better > oracle::at_least(30));
}

TEST_CASE("per layer: no mix of tp that Galvatron runs beats what is found, whatever replicas and micro-batches") {
  std::mt19937 random(35);
  int tried = 0, mixes = 0, best_mixes = 0;
  for (int round = 0; round < oracle::rounds(400); ++round) {
    Problem problem = small_job(random, 3);
    problem.gpus = 4, problem.training.global_batch = 8;
    problem.fixed.cp = problem.fixed.pp = 1, problem.fixed.zero = 2;
    const StageSearch found = find_runs(problem, RealBytes::infinity(), kForever);
    if (!found.exact) continue;
    if (found.best && !found.best->layout.stages.empty()) ++best_mixes;
    CAPTURE(round);
    StageModels models(problem);
    for (int i = 0; i < 100; ++i) {
      Layout base;
      base.tp = pick(random, {1, 2, 4}), base.dp = problem.gpus / base.tp, base.zero = 2;
      base.micro_batch = pick(random, {1, 2, 4}), base.sequence_parallel = base.tp > 1;
      base.chunk_layers = {3};
      if (problem.training.global_batch % (base.dp * base.micro_batch) != 0) continue;
      std::vector<StageStrategy> ways = some_ways(random, base, 100);
      std::erase_if(ways, [](const StageStrategy& way) { return way.cp > 1 || way.zero == 3; });
      std::vector<int> way_of(3);
      for (int& way : way_of) way = static_cast<int>(random() % ways.size());
      Layout layout = with_ways(base, ways, way_of);
      if (!stages_fault(problem, layout).empty()) continue;
      const Seconds step = score_stages(models, problem, layout).step_time;
      settle_stages(problem, layout);
      if (broken_rule(problem, layout) >= 0 || !galvatron_lacks(problem, layout).text.empty()) continue;
      ++tried;
      if (!layout.stages.empty()) ++mixes;
      CAPTURE(layout_flag(layout));
      REQUIRE(found.best);
      CHECK(found.best->score.step_time <= step * (1 + 1e-9));
    }
  }
  CHECK(tried > oracle::at_least(500));
  CHECK(mixes > oracle::at_least(300));
  CHECK(best_mixes > oracle::at_least(10));
}
