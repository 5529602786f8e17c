// Properties that every estimate has.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/search/search.hpp"

using namespace plan;

namespace {

Problem llama_405b() {
  Problem problem;
  problem.model = oracle::dense_model(126, 16384, 128, 8, 53248, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 16384;
  problem.training.seq = 8192, problem.training.global_batch = 2048;
  return problem;
}

Layout llama_405b_layout() {
  Layout layout;
  layout.tp = 8, layout.pp = 16, layout.vp = 8, layout.dp = 128;
  layout.schedule = Schedule::Interleaved, layout.zero = 2, layout.sequence_parallel = true;
  return layout;
}

}  // namespace

TEST_CASE("126 layers on 16 stages: embedding and head stand for a layer each") {
  Problem problem = llama_405b();
  Layout layout = llama_405b_layout();
  CHECK(estimate(problem, layout).stage_layers == std::vector<int>{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
  layout.vp = 1, layout.schedule = Schedule::OneFOneB;
  CHECK(estimate(problem, layout).stage_layers == std::vector<int>{7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
}

TEST_CASE("terms add up to the step and categories to the stage, for whatever the search proposes") {
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const Problem problem = oracle::random_problem(random, 64);
    const SearchResult found = find_layouts(problem);
    for (const Candidate& candidate : found.ranking.best()) {
      const Estimate e = estimate(problem, candidate.layout);
      const Terms& t = e.terms;
      double sum = 0;
      for (const auto& row : kTimeTerms) {
        CHECK((t.*row.second).value >= 0);
        sum += (t.*row.second).value;
      }
      CHECK(e.step_time.value == doctest::Approx(sum).epsilon(1e-12));
      CHECK(e.step_time == candidate.score.step_time);
      CHECK(e.peak == candidate.score.peak);
      int layers = 0;
      for (const StageMemory& stage : e.stages) {
        Bytes sum_of_rows{};
        for (const MemoryCategory& row : kMemoryCategories) sum_of_rows = sum_of_rows + stage.*row.bytes;
        CHECK(stage.total() == sum_of_rows);
        CHECK(stage.total() <= e.peak);
        layers += stage.layers;
      }
      CHECK(layers == problem.model.depth() * (e.layout.schedule == Schedule::DualPipe ? 2 : 1));
      CHECK((t.tp.value > 0) == (e.layout.tp > 1));
      if (e.layout.cp == 1) CHECK(t.cp.value == 0);
      if (e.layout.pp == 1) CHECK(t.pp.value + t.bubble.value == 0);
      if (e.layout.recompute.kind == RecomputeKind::None) CHECK(t.recompute.value == 0);
      CHECK(std::isfinite(e.mfu.model_full));
      CHECK(e.mfu.model_full >= e.mfu.model_causal);
      CHECK(e.mfu.hardware >= e.mfu.model_causal);
    }
  }
}

TEST_CASE("block recomputation counts layers of each chunk, in time as in memory") {
  const Problem problem = llama_405b();
  Layout layout = llama_405b_layout();  // 8 chunks of one layer: a layer of each is all of them
  layout.recompute = {.kind = RecomputeKind::Full, .layers = 1};
  const Estimate block = estimate(problem, layout);
  layout.recompute = {.kind = RecomputeKind::Full};
  const Estimate full = estimate(problem, layout);
  CHECK(block.terms.recompute.value == doctest::Approx(full.terms.recompute.value));
  CHECK(block.peak == full.peak);
}

TEST_CASE("more of a resource never hurts") {
  const Layout layout = llama_405b_layout();
  const Problem problem = llama_405b();
  const double base = estimate(problem, layout).step_time.value;
  Problem faster = problem;
  for (Tier& tier : faster.cluster.tiers) tier.bandwidth = tier.bandwidth * 2;
  faster.cluster.gpu.nic = faster.cluster.gpu.nic * 2, faster.cluster.gpu.scale_up = faster.cluster.gpu.scale_up * 2;
  CHECK(estimate(faster, layout).step_time.value < base);
  faster = problem, faster.cluster.gpu.memory_bandwidth = faster.cluster.gpu.memory_bandwidth * 2;
  CHECK(estimate(faster, layout).step_time.value < base);

  std::mt19937 random(5);
  for (int i = 0; i < 30; ++i) {
    Problem small = oracle::random_problem(random, 32);
    small.objective = Objective::StepTime;
    const SearchResult before = find_layouts(small);
    small.cluster.gpu.memory = small.cluster.gpu.memory * 2;
    const SearchResult after = find_layouts(small);
    if (before.ranking.best().empty() || before.at_risk) continue;
    REQUIRE_FALSE(after.ranking.best().empty());
    CHECK(after.ranking.best().front().score.step_time <= before.ranking.best().front().score.step_time);
  }
}

TEST_CASE("traffic of tensor parallelism is the published volume") {
  // 10 N h (t-1)/t elements of 2 bytes a layer and micro-batch with sequence parallelism (plan-formulas(7) E1).
  const Problem problem = llama_405b();
  const Estimate e = estimate(problem, llama_405b_layout());
  double bytes = 0;
  for (const Communication& row : e.communication)
    if (row.axis == Axis::Tp) bytes += static_cast<double>(row.per_step.value);
  const double layer = 10 * 2.0 * 8192 * 16384 * 7 / 8;
  CHECK(bytes == doctest::Approx(16 * 8 * layer).epsilon(1e-3));
}

TEST_CASE("linears that sum their own input gradients reduce once more a layer, without sequence parallelism") {
  Problem problem = llama_405b();
  Layout layout = llama_405b_layout();
  const auto bytes = [&] {
    double sum = 0;
    for (const Communication& row : estimate(problem, layout).communication)
      if (row.axis == Axis::Tp) sum += static_cast<double>(row.per_step.value);
    return sum;
  };
  const double shared = bytes();
  problem.training.stack.reduces_per_linear = true;
  CHECK(bytes() == shared);
  layout.sequence_parallel = false;
  const double apart = bytes();
  problem.training.stack.reduces_per_linear = false;
  CHECK(apart - bytes() == doctest::Approx(16 * 8 * 4.0 * 8192 * 16384 * 7 / 8));
}

TEST_CASE("a tensor rank hands on its share of an activation, or all of it where nothing is scattered") {
  Problem problem = llama_405b();
  Layout layout = llama_405b_layout();
  const double share = 2.0 * 8192 * 16384 / 8;
  CHECK(hand_over_bytes(problem, layout).value == share);
  layout.sequence_parallel = false;
  CHECK(hand_over_bytes(problem, layout).value == 8 * share);
  problem.training.stack.scatters_hand_overs = true;
  CHECK(hand_over_bytes(problem, layout).value == share);
  for (const Communication& row : estimate(problem, layout).communication)
    if (row.axis == Axis::Pp) CHECK(static_cast<double>(row.per_step.value) == doctest::Approx(2 * 16 * 8 * share));
}

TEST_CASE("the column linears' reduction hides under weight gradients only where a stack starts it in time") {
  Problem problem = llama_405b();
  Layout layout = llama_405b_layout();
  for (const bool sequence_parallel : {false, true}) {
    layout.sequence_parallel = sequence_parallel;
    problem.training.stack.tp_async_reduce = true;
    const double hidden = estimate(problem, layout).terms.tp.value;
    problem.training.stack.tp_async_reduce = false;
    CHECK(estimate(problem, layout).terms.tp.value > hidden);
  }
  // Inputs that were kept are not gathered again.
  const double again = estimate(problem, layout).terms.tp.value;
  problem.training.stack.keeps_gathered = true;
  CHECK(estimate(problem, layout).terms.tp.value < again);
}

TEST_CASE("adapters cost time where they sit") {
  Problem problem = llama_405b();
  const Layout layout = llama_405b_layout();
  const auto seconds = [&](bool attention, bool ffn) {
    problem.training.task = Task::Lora;
    problem.training.lora = {.rank = 16, .attention = attention, .ffn = ffn};
    return estimate(problem, layout).terms.compute.value;
  };
  const double none = seconds(false, false), attention = seconds(true, false), ffn = seconds(false, true);
  CHECK(attention > none);
  CHECK(ffn > none);
  CHECK(seconds(true, true) == doctest::Approx(attention + ffn - none).epsilon(1e-9));
}

TEST_CASE("a base of 4 bits is turned to 16 before each of its products, by reading 4 bits and writing 16") {
  Problem problem;
  problem.model = oracle::dense_model(8, 4096, 32, 32, 16384, 32000);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 1, problem.training.seq = 4096, problem.training.global_batch = 1;
  const auto seconds = [&](Task task) {
    problem.training.task = task;
    return estimate(problem, Layout{}).terms.compute.value;
  };
  const double more = seconds(Task::Qlora) - seconds(Task::Lora);
  const double weights = 8.0 * (4 * 4096. * 4096 + 2 * 4096. * 16384);  // at least, without gates
  const double rate = problem.cluster.gpu.memory_efficiency * problem.cluster.gpu.memory_bandwidth.value;
  CHECK(more > 2 * 2.5 * weights / rate);
  CHECK(more < 2 * 2.5 * 2 * weights / rate);
}

TEST_CASE("all-to-alls beside another micro-batch leave the launches of their layers") {
  Problem problem;
  problem.model = oracle::dense_model(8, 2048, 16, 16, 8192, 32000);
  problem.model.kinds[0].ffn = Ffn::Moe;
  problem.model.kinds[0].moe = {.experts = 64, .top_k = 8, .expert_width = 512, .gated = true};
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 16;
  problem.training.seq = 1024, problem.training.global_batch = 64;
  Layout layout;
  layout.dp = 16, layout.ep = 16;
  const auto seconds = [&](bool overlap, double gap_us) {
    problem.training.stack.ep_overlap = overlap;
    problem.cluster.calibration.kernel_gap_us = gap_us;
    return estimate(problem, layout).step_time.value;
  };
  CHECK(seconds(true, 0) < seconds(false, 0));
  // All of it launches: those of the layers stay, and four nodes of a layer have twelve calls each beside the 115.
  CHECK(seconds(true, 1000) > seconds(false, 1000));
  CHECK(seconds(true, 1000) < (115 + 4 * 12) / 115.0 * seconds(false, 1000));
}

TEST_CASE("DeepSpeed's pipeline sums whole bf16 gradients though ZeRO-1 shards its optimizer") {
  Problem problem = llama_405b();
  problem.training.stack.overlap_grad_reduce = false;
  Layout layout = llama_405b_layout();
  layout.zero = 1;
  const auto reduced = [&](StateLayout states) {
    problem.training.stack.states = states;
    const Estimate e = estimate(problem, layout);
    const auto row = std::find_if(e.communication.begin(), e.communication.end(),
                                  [](const Communication& c) { return c.axis == Axis::Dp; });
    REQUIRE(row != e.communication.end());
    return std::pair(row->op, e.terms.dp.value);
  };
  const auto [whole, slow] = reduced(StateLayout::DeepSpeed);
  const auto [sharded, fast] = reduced(StateLayout::Megatron);
  CHECK(whole == Collective::AllReduce);
  CHECK(sharded == Collective::ReduceScatter);
  CHECK(slow > fast);
}
