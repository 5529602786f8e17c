// Pipelines whose stages differ: each stage takes the memory that it takes in a pipeline whose stages all do the same,
// equal stages are the uniform layout, and what cannot be is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "draw.hpp"
#include "oracle/random_problem.hpp"
#include "planner/estimate/stage_cells.hpp"
#include "planner/planner.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

Problem job(std::mt19937& random) {
  Problem problem;
  problem.model = oracle::dense_model(pick(random, {8, 9, 12}), 2048, 16, pick(random, {4, 16}), 8192, 32000);
  problem.model.tied = random() % 3 == 0;
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 32;
  problem.training.seq = 2048;
  problem.training.global_batch = pick(random, {32, 64, 128});
  problem.framework = Framework::None;
  return problem;
}

Layout pipeline(std::mt19937& random, const Problem& problem) {
  Layout layout;
  layout.pp = pick(random, {2, 4, 8}), layout.tp = pick(random, {1, 2, 4});
  layout.dp = problem.gpus / layout.pp / layout.tp;
  layout.zero = pick(random, {0, 1, 2, 3});
  layout.sequence_parallel = layout.tp > 1;
  layout.schedule = static_cast<Schedule>(random() % kSchedules);
  layout.vp = schedule_row(layout.schedule).chunks == Chunks::One ? 1 : 2;
  return layout;
}

Recompute way(std::mt19937& random) {
  switch (random() % 4) {
    case 0: return {};
    case 1: return {.kind = RecomputeKind::Full};
    case 2: return {.kind = RecomputeKind::Full, .modules = 0, .layers = 1};
    default: return {.kind = RecomputeKind::Selective, .modules = kRecomputeMlp};
  }
}

/// Less to more, on whatever layers.
Recompute more_or_less(std::mt19937& random) {
  if (random() % 3 == 0) return {};
  return {.kind = RecomputeKind::Full, .modules = 0, .layers = pick(random, {0, 1, 2})};
}

}  // namespace

TEST_CASE("stages: those that all do the same are the uniform layout") {
  std::mt19937 random(3);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(300); ++round) {
    const Problem problem = job(random);
    Layout layout = pipeline(random, problem);
    layout.recompute = way(random);
    if (broken_rule(problem, layout) >= 0) continue;
    ++tried;
    const Estimate uniform = estimate(problem, layout);
    Layout list = layout;
    list.recompute = {};
    list.stages.assign(static_cast<std::size_t>(layout.pp), {layout.recompute});
    const Estimate each = estimate_stages(problem, list);
    CHECK(each.step_time.value == doctest::Approx(uniform.step_time.value).epsilon(1e-12));
    CHECK(each.step_time_high.value == doctest::Approx(uniform.step_time_high.value).epsilon(1e-12));
    CHECK(each.stages == uniform.stages);
    CHECK(each.peak == uniform.peak);
    CHECK(each.peak_high == uniform.peak_high);
    CHECK(each.mfu.hardware == doctest::Approx(uniform.mfu.hardware).epsilon(1e-12));
    CHECK(each.stage_layers == uniform.stage_layers);
    CHECK(each.communication.size() == uniform.communication.size());
    settle_stages(problem, list);
    CHECK(list == layout);
  }
  CHECK(tried > oracle::at_least(100));
}

TEST_CASE("stages: each takes the memory that it takes where all do as it does, the step lies between theirs") {
  std::mt19937 random(5);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const Problem problem = job(random);
    Layout layout = pipeline(random, problem);
    if (broken_rule(problem, layout) >= 0) continue;
    layout.chunk_layers = estimate(problem, layout).layout.chunk_layers;
    layout.stages.clear();
    for (int stage = 0; stage < layout.pp; ++stage) layout.stages.push_back({more_or_less(random)});
    if (!stages_fault(problem, layout).empty()) continue;
    ++tried;
    const Estimate mixed = estimate_stages(problem, layout);
    double least = 1e300, most = 0;
    for (int stage = 0; stage < layout.pp; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      Layout alike = layout;
      alike.stages.clear();
      alike.recompute = layout.stages[at].recompute;
      const Estimate uniform = estimate(problem, alike);
      CHECK(mixed.stages[at] == uniform.stages[at]);
      least = std::min(least, uniform.step_time.value), most = std::max(most, uniform.step_time.value);
    }
    // Under ZeRO-2 and 3 more work of one stage may hide more of its own reductions than it takes. The laws of
    // unequal stages are near a simulation, and so not monotone to the last digit.
    constexpr double kLaw = 0.005;
    const bool moving = layout.zero >= 2;
    if (!moving) CHECK(mixed.step_time.value >= least * (1 - kLaw));
    if (!moving) CHECK(mixed.step_time.value <= most * (1 + kLaw));
    CHECK(mixed.layout.stages == layout.stages);
  }
  CHECK(tried > oracle::at_least(60));
}

TEST_CASE("stages: one of another tp, ZeRO or offload takes the memory of a job that is like it") {
  std::mt19937 random(7);
  int tried = 0;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const Problem problem = job(random);
    Layout layout = pipeline(random, problem);
    layout.vp = 1, layout.schedule = Schedule::OneFOneB, layout.micro_batch = 4, layout.zero = pick(random, {0, 1});
    if (broken_rule(problem, layout) >= 0) continue;
    layout.chunk_layers = estimate(problem, layout).layout.chunk_layers;
    for (int stage = 0; stage < layout.pp; ++stage) {
      StageStrategy own{way(random)};
      if (random() % 2 == 0) own.tp = pick(random, {1, 2, 4});
      if (random() % 2 == 0) own.zero = pick(random, {0, 1});
      if (own.recompute.kind == RecomputeKind::None && random() % 2 == 0) own.offload = 1;
      layout.stages.push_back(own);
    }
    if (!stages_fault(problem, layout).empty()) continue;
    ++tried;
    const Estimate mixed = estimate(problem, layout);
    for (int stage = 0; stage < layout.pp; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      const StageStrategy& own = layout.stages[at];
      Layout alike = layout;
      alike.stages.clear();
      alike.recompute = own.recompute;
      if (own.zero >= 0) alike.zero = own.zero;
      if (own.tp > 0) {  // as many GPUs, as many sequences at once
        alike.tp = own.tp, alike.dp = problem.gpus / layout.pp / own.tp;
        alike.micro_batch = layout.micro_batch * layout.dp / alike.dp;
        alike.sequence_parallel = own.tp > 1;
      }
      Problem away = problem;
      away.training.offload.layers = own.offload;
      CHECK(mixed.stages[at] == estimate(away, alike).stages[at]);
    }
  }
  CHECK(tried > oracle::at_least(60));
}

TEST_CASE("stages: a hop takes as long as the larger of what its two ends would hand on by themselves") {
  std::mt19937 random(9);
  int tried = 0, unlike = 0;
  for (int round = 0; round < oracle::rounds(300); ++round) {
    Problem problem = job(random);
    problem.training.stack.scatters_hand_overs = random() % 2 == 0;
    Layout layout = pipeline(random, problem);
    layout.vp = 1, layout.schedule = Schedule::OneFOneB, layout.micro_batch = 4;
    if (random() % 3 > 0) layout.sequence_parallel = false;  // then each rank hands on all of it
    for (int stage = 0; stage < layout.pp; ++stage) layout.stages.push_back({.tp = pick(random, {1, 2, 4})});
    if (!stages_fault(problem, layout).empty()) continue;
    const auto alone = [&](std::size_t stage) {
      Layout alike = layout;
      alike.stages.clear();
      alike.tp = layout.stages[stage].tp, alike.dp = problem.gpus / layout.pp / alike.tp;
      alike.micro_batch = layout.micro_batch * layout.dp / alike.dp;
      if (alike.tp != layout.tp) alike.sequence_parallel = alike.tp > 1 && (layout.sequence_parallel || layout.tp == 1);
      return hand_overs(problem, alike);
    };
    const Hops hops = StageModels(problem).hops(layout);
    for (int stage = 0; stage + 1 < layout.pp; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      const double here = alone(at).between(stage, stage + 1).value,
                   there = alone(at + 1).between(stage, stage + 1).value;
      CHECK(hops.between(stage, stage + 1).value == doctest::Approx(std::max(here, there)).epsilon(1e-12));
      ++tried;
      if (here != there) ++unlike;
    }
  }
  CHECK(tried > oracle::at_least(200));
  CHECK(unlike > oracle::at_least(100));
}

TEST_CASE("stages: what cannot be is refused, and no framework of the list takes a list") {
  std::mt19937 random(1);
  Problem problem = job(random);
  Layout layout;
  layout.pp = 4, layout.dp = 8;
  const auto code = [&](const Layout& l) {
    const int rule = broken_rule(problem, l);
    return rule < 0 ? std::string() : std::string(rules()[static_cast<std::size_t>(rule)].code);
  };
  const Recompute full{.kind = RecomputeKind::Full};
  layout.stages = {{full}, {full}, {}, {}};
  CHECK(code(layout) == "");
  Layout short_list = layout;
  short_list.stages.pop_back();
  CHECK(code(short_list) == "stage_strategies");
  Layout twice = layout;
  twice.recompute = full;
  CHECK(code(twice) == "stage_strategies");
  Layout wide = layout;
  wide.stages[1].tp = 3;
  CHECK(code(wide) == "stage_strategies");
  wide.stages[1].tp = 4;
  CHECK(code(wide) == "");
  wide.shard = 2;
  CHECK(code(wide) == "stage_strategies");
  for (const FrameworkRow& row : frameworks()) {
    problem.framework = row.framework;
    if (named(row.framework)) CHECK(broken_rule(problem, layout) >= 0);
  }
  problem.framework = Framework::Any;
  const Result<Plan> plan = plan_layout(problem, layout);
  REQUIRE(plan);
  CHECK(plan->runs_on.empty());
}
