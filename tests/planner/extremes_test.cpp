// Models of up to 10^15 parameters on up to 10^7 GPUs: every figure right, by arithmetic in 128 bits, and none that is
// no number. Run under -fsanitize=undefined, this is also where a product that leaves 63 bits shows.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "formulas/absurdity.hpp"
#include "formulas/flops.hpp"
#include "formulas/parameters.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/search.hpp"

using namespace plan;

namespace {

__extension__ using Wide = __int128;

std::int64_t up_to(std::mt19937_64& random, double most) {
  return static_cast<std::int64_t>(std::exp(std::uniform_real_distribution<>(0, std::log(most))(random)));
}

/// A dense model whose sizes spread evenly over their orders of magnitude.
Model wide_model(std::mt19937_64& random) {
  const std::int64_t heads = std::int64_t{1} << random() % 14;
  return oracle::dense_model(static_cast<int>(up_to(random, 1e4)), heads * 64 * up_to(random, 256), heads, heads,
                             128 * up_to(random, 7e4), 128 * up_to(random, 7e5));
}

/// Parameters of a Llama-shaped model, written down once more.
Wide parameters(const Model& m) {
  const Layer& layer = m.kinds.front();
  const Wide hidden = m.hidden, all_heads = Wide{layer.attention.heads} * layer.attention.head_dim;
  const Wide each = 4 * hidden * all_heads + 3 * hidden * layer.dense.width + 2 * hidden;
  return 2 * Wide{m.vocab} * hidden + static_cast<Wide>(m.layers.size()) * each + hidden;
}

Problem problem_of(const Model& model, std::mt19937_64& random) {
  Problem problem;
  problem.model = model;
  problem.cluster = oracle::plain_cluster();
  problem.training.seq = std::int64_t{1} << random() % 33;
  problem.training.global_batch = std::int64_t{1} << random() % 27;
  problem.threads = 1;
  return problem;
}

/// A layout of powers of two on at most 2^24 GPUs.
Layout wide_layout(std::mt19937_64& random) {
  Layout layout{.tp = 1 << random() % 4, .cp = 1 << random() % 7, .pp = 1 << random() % 7, .dp = 1 << random() % 14};
  layout.zero = static_cast<int>(random() % 4);
  layout.micro_batch = 1 << random() % 6;
  layout.sequence_parallel = layout.tp > 1 && random() % 2 == 0;
  if (random() % 3 == 0) layout.recompute.kind = RecomputeKind::Full;
  return layout;
}

void check_numbers(const Estimate& e) {
  for (const double value : {e.step_time.value, e.step_time_low.value, e.step_time_high.value, e.tokens_per_s,
                             e.tokens_per_s_per_gpu, e.mfu.model_causal, e.mfu.model_full, e.mfu.hardware}) {
    CHECK(std::isfinite(value));
    CHECK(value >= 0);
  }
  CHECK(e.step_time.value > 0);
  CHECK(e.terms.total().value == doctest::Approx(e.step_time.value).epsilon(1e-9));
  CHECK(e.peak_low.value <= e.peak.value);
  CHECK(e.peak.value <= e.peak_high.value);
  for (const StageMemory& stage : e.stages) {
    for (const Bytes bytes : {stage.weights, stage.grads, stage.optimizer, stage.activations, stage.transient,
                              stage.communication, stage.context})
      CHECK(bytes.value >= 0);
    CHECK(stage.total().value > 0);
  }
  for (const Communication& c : e.communication) {
    CHECK(c.per_step.value >= 0);
    CHECK(std::isfinite(c.time.value));
  }
}

}  // namespace

TEST_CASE("parameters are exact up to the most that a model may have, and refused beyond") {
  std::mt19937_64 random(1015);
  int read = 0, refused = 0, huge = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Model model = wide_model(random);
    const Wide exact = parameters(model);
    if (!absurdity(model).empty()) {
      ++refused;
      // What is counted leaves some room.
      CHECK((static_cast<double>(exact) > kMostParameters / 2 || model.layers.size() > kMostDepth));
      continue;
    }
    ++read;
    huge += static_cast<double>(exact) > 1e14;
    CHECK(exact < Wide{2} * static_cast<Wide>(kMostParameters));
    CHECK(Wide{model_parameters(model).total} == exact);
  }
  CHECK(read > 5000);
  CHECK(refused > 500);
  CHECK(huge > 100);
}

TEST_CASE("memory and speed of the largest models are right") {
  std::mt19937_64 random(1007);
  int estimated = 0, huge = 0, largest_jobs = 0;
  for (int i = 0; i < 20'000 && estimated < 1500; ++i) {
    const Model model = wide_model(random);
    if (!absurdity(model).empty()) continue;
    Problem problem = problem_of(model, random);
    const Layout layout = wide_layout(random);
    problem.gpus = layout.tp * layout.cp * layout.pp * layout.dp;
    if (problem.gpus > 1 << 24) continue;
    problem.fixed.pp = layout.pp, problem.fixed.dp = layout.dp;
    if (broken_rule(problem, layout) >= 0) continue;
    ++estimated;
    const Estimate e = estimate(problem, layout);
    CAPTURE(layout.tp * layout.pp);
    check_numbers(e);
    // bf16 weights of all stages and tensor ranks are the model's, norms kept on every rank.
    Wide weights = 0;
    for (const StageMemory& stage : e.stages) weights += stage.weights.value;
    if (layout.zero < 3) {
      const auto whole = 2 * static_cast<double>(parameters(model));
      CHECK(static_cast<double>(weights) * layout.tp >= 0.999 * whole);
    }
    // tokens/s, step time and model FLOPs say the same.
    const double tokens = static_cast<double>(static_cast<Wide>(problem.training.seq) * problem.training.global_batch);
    CHECK(e.tokens_per_s == doctest::Approx(tokens / e.step_time.value).epsilon(1e-9));
    CHECK(e.tokens_per_s_per_gpu * problem.gpus == doctest::Approx(e.tokens_per_s).epsilon(1e-9));
    CHECK(e.mfu.model_full <= 1.5);
    huge += static_cast<double>(parameters(model)) > 1e13;
    largest_jobs += problem.gpus > 1'000'000;
  }
  CHECK(estimated >= 500);
  CHECK(huge >= 20);
  CHECK(largest_jobs >= 20);
}

TEST_CASE("a search of a job too large for its GPUs ends with what is missing, in numbers") {
  std::mt19937_64 random(11);
  for (const int gpus : {1, 8, 1000, 1 << 20, 10'000'000, 1 << 24}) {
    Problem problem = problem_of(oracle::dense_model(900, 1 << 18, 2048, 128, 1 << 20, 1 << 20), random);
    REQUIRE(absurdity(problem.model).empty());
    problem.training.seq = 4096, problem.training.global_batch = 4096;
    problem.gpus = gpus;
    const SearchResult found = find_layouts(problem);
    CHECK(found.stats.considered >= 0);
    CHECK(found.stats.fit >= 0);
    CHECK(found.stats.pruned >= 0);
    for (const Candidate& candidate : found.ranking.best()) {
      CHECK(std::isfinite(candidate.score.step_time.value));
      CHECK(std::isfinite(candidate.score.peak.value));
    }
  }
}
