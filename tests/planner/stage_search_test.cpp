// Layers and recomputation of every stage: the search finds what brute force finds, is never worse than stages that are
// equal, and says with one number what one number can say.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "draw.hpp"
#include "oracle/random_problem.hpp"
#include "planner/choice/choice.hpp"
#include "planner/planner.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/stages/stage_search.hpp"

using namespace plan;

namespace {

Problem small_job(std::mt19937& random) {
  Problem problem;
  problem.model =
      oracle::dense_model(pick(random, {3, 4, 5}), 1024, 8, pick(random, {2, 8}), 4096, pick(random, {8000, 128000}));
  problem.model.tied = random() % 3 == 0;
  problem.cluster = oracle::plain_cluster();
  problem.cluster.tiers = {{"nvlink", 8, BytesPerSecond(450e9)}, {"network", 1 << 20, BytesPerSecond(50e9)}};
  if (random() % 4 == 0) problem.cluster.tiers.back().bandwidth = BytesPerSecond(2e9);
  problem.training.seq = pick(random, {1024, 4096});
  problem.framework = Framework::None;
  if (random() % 3 == 0) {  // two kinds of layer, the first of them alone
    problem.model.kinds.push_back(problem.model.kinds.front());
    problem.model.kinds.back().dense.width *= pick(random, {2, 4});
    problem.model.layers.front() = 1;
  }
  return problem;
}

Layout drawn_pipeline(std::mt19937& random, Problem& problem) {
  Layout base;
  base.pp = pick(random, {2, 3}), base.tp = pick(random, {1, 2}), base.dp = pick(random, {1, 2, 8});
  base.zero = pick(random, {0, 1});
  base.sequence_parallel = base.tp > 1;
  base.micro_batch = pick(random, {1, 2, 4});
  problem.gpus = base.world();
  problem.training.global_batch = base.dp * base.micro_batch * pick(random, {1, 2, 3, 4, 6, 16});
  return base;
}

/// Every split of the layers with every list of ways to recompute.
struct Brute {
  StageModels& models;
  const Problem& problem;
  const Layout& base;
  RealBytes capacity;
  std::optional<Score> best{};

  void run(std::vector<int>& layers, std::vector<StageStrategy>& ways, int left) {
    const int behind = base.pp - static_cast<int>(layers.size());
    if (behind == 0) {
      if (left > 0) return;
      Layout layout = base;
      layout.chunk_layers = layers, layout.stages = ways;
      const Score score = score_stages(models, problem, layout);
      if (score.peak <= capacity && (!best || score.step_time < best->step_time)) best = score;
      return;
    }
    for (int here = 1; here + behind - 1 <= left; ++here)
      for (const Recompute& way : enumerate_recomputes(problem, here)) {
        layers.push_back(here), ways.push_back({way});
        run(layers, ways, left - here);
        layers.pop_back(), ways.pop_back();
      }
  }
};

}  // namespace

TEST_CASE("per stage: the search finds what brute force finds") {
  std::mt19937 random(13);
  int unequal = 0, none = 0, left_out = 0;
  for (int round = 0; round < oracle::rounds(400); ++round) {
    Problem problem = small_job(random);
    const Layout base = drawn_pipeline(random, problem);
    CAPTURE(round);
    StageModels models(problem);
    // From what takes least memory to what takes most.
    Layout lean = base, rich = base;
    lean.recompute.kind = RecomputeKind::Full;
    const RealBytes low = score_stages(models, problem, lean).peak, high = score_stages(models, problem, rich).peak;
    const RealBytes capacity = low * 0.9 + (high * 1.1 - low * 0.9) * static_cast<double>(random() % 1000) / 1000;
    Brute brute{models, problem, base, capacity};
    std::vector<int> layers;
    std::vector<StageStrategy> ways;
    brute.run(layers, ways, problem.model.depth());
    const StageSearch result = best_stages(models, problem, base, capacity, Seconds::infinity(), 1 << 20);
    const std::optional<FoundStages>& found = result.best;
    REQUIRE(found.has_value() == brute.best.has_value());
    if (!found) {
      ++none;
      continue;
    }
    CHECK(result.exact);
    CHECK(found->score.peak <= capacity);
    CHECK(found->score.step_time / brute.best->step_time == doctest::Approx(1).epsilon(1e-9));
    CHECK(estimate(problem, found->layout).step_time / found->score.step_time == doctest::Approx(1).epsilon(1e-9));
    if (!found->layout.stages.empty()) ++unequal;
    const StageSearch hasty = best_stages(models, problem, base, capacity, Seconds::infinity(), 0);
    if (hasty.exact) CHECK(hasty.best->score.step_time / brute.best->step_time == doctest::Approx(1).epsilon(1e-9));
    left_out += !hasty.exact;
  }
  CHECK(left_out > oracle::at_least(5));
  CHECK(unequal > oracle::at_least(60));
  CHECK(none > oracle::at_least(5));
}

TEST_CASE("per stage: never worse than stages that are all the same, on any model") {
  std::mt19937 random(17);
  int faster = 0, tried = 0, run_by_some = 0;
  for (int round = 0; round < oracle::rounds(60); ++round) {
    Problem problem = oracle::random_problem(random, 8);
    if (round % 2 == 0) problem = oracle::widened(problem, random);
    problem.framework = Framework::Any, problem.threads = 1;
    problem.fixed = {};
    problem.fixed.pp = 2, problem.per_stage = true;
    const Result<Plan> plan = search(problem);
    if (!plan) continue;
    ++tried;
    CAPTURE(round);
    REQUIRE(plan->per_stage);
    if (!plan->per_stage->best) continue;
    ++faster;
    CHECK(plan->per_stage->best->step_time.value <= plan->fastest->step_time.value);
    CHECK(plan->per_stage->best->fits == plan->fastest->fits);
    if (!plan->per_stage->best->layout.stages.empty()) CHECK(plan->per_stage->runs_on.empty());
    Problem stated = plan->problem;
    stated.fixed.chunk_layers = plan->per_stage->best->layout.chunk_layers;
    const std::vector<RunsOn> runs = frameworks_that_run(stated, plan->per_stage->best->layout);
    REQUIRE(plan->per_stage->runs_on.size() == runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      CHECK(plan->per_stage->runs_on[i].framework == runs[i].framework);
      CHECK(plan->per_stage->runs_on[i].step_time == runs[i].step_time);
    }
    run_by_some += !runs.empty();
    CHECK(plan->best.layout.stages.empty());
  }
  CHECK(tried > oracle::at_least(20));
  CHECK(faster >= oracle::at_least(4));  // of six rounds none may fit
  CHECK(run_by_some >= oracle::at_least(2));
}

TEST_CASE("per stage: on equal layers with memory to spare, stages that are all the same are as fast") {
  std::mt19937 random(19);
  for (int round = 0; round < oracle::rounds(40); ++round) {
    Problem problem = small_job(random);
    problem.model = oracle::dense_model(8, 2048, 16, 16, 8192, 512);  // ends that weigh next to nothing
    problem.cluster = oracle::plain_cluster();                        // where gradients hide under the last micro-batch
    Layout base = drawn_pipeline(random, problem);
    base.pp = pick(random, {2, 4}), problem.gpus = base.world();
    problem.training.global_batch = base.dp * base.micro_batch * 32;
    StageModels models(problem);
    const std::optional<FoundStages> found = best_stages(models, problem, base, RealBytes::infinity()).best;
    REQUIRE(found);
    const Seconds uniform = score_stages(models, problem, base).step_time;
    CHECK(found->score.step_time <= uniform * (1 + 1e-12));
    CHECK(found->score.step_time > 0.97 * uniform);
    CHECK(found->layout.stages.empty());
  }
}

TEST_CASE("per stage: one number says what one number can say") {
  Layout layout;
  layout.pp = 3;
  layout.chunk_layers = {2, 4, 5};
  const auto block = [](int layers) {
    return StageStrategy{{.kind = RecomputeKind::Full, .modules = 0, .layers = layers}};
  };
  layout.stages = {block(0), block(3), block(3)};  // Megatron's 3: the first stage has but 2
  REQUIRE(without_list(layout));
  CHECK(without_list(layout)->recompute == block(3).recompute);
  CHECK(without_list(layout)->stages.empty());
  layout.stages = {block(0), block(0), block(0)};
  CHECK(without_list(layout)->recompute == block(0).recompute);
  layout.stages = {block(1), block(3), block(3)};
  CHECK_FALSE(without_list(layout));
  layout.stages = {block(2), block(3), {}};
  CHECK_FALSE(without_list(layout));
  layout.stages = {block(2), block(2), block(2)};
  layout.stages[1].offload = 1;
  CHECK_FALSE(without_list(layout));
}
