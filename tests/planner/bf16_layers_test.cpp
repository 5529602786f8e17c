// Layers that stay in bf16 beside others in fp8 or fp4: a step with all of them is that of a bf16 training, and each
// layer more adds its own difference, in time and in memory. The oracle is the estimate of trainings in one format.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "formulas/bf16_layers.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/cost/cost.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;
using doctest::Approx;

namespace {

constexpr int kDepth = 12;

Problem job(Precision precision, int first, int last, bool experts = false) {
  Problem problem;
  problem.model = oracle::dense_model(kDepth, 2048, 16, 16, 8192, 32000);
  if (experts)
    for (Layer& kind : problem.model.kinds) {
      kind.ffn = Ffn::Moe;
      kind.moe = {.experts = 16, .top_k = 4, .expert_width = 1024};
    }
  problem.cluster = oracle::plain_cluster();
  problem.cluster.gpu.peak[static_cast<std::size_t>(DType::Fp4)] =
      4 * problem.cluster.gpu.peak[static_cast<std::size_t>(DType::Bf16)];
  problem.gpus = 8;
  problem.training.seq = 2048, problem.training.global_batch = 64;
  problem.training.precision = precision;
  problem.training.bf16_layers = {.first = first, .last = last};
  problem.model = with_bf16_layers(std::move(problem.model), problem.training.bf16_layers);
  return problem;
}

Layout dp_only(int zero) {
  Layout layout;
  layout.dp = 8, layout.zero = zero, layout.micro_batch = 2;
  return layout;
}

struct Sizes {
  double time = 0, memory = 0;
};
Sizes sizes(const Problem& problem, const Layout& layout) {
  const Estimate e = estimate(problem, layout);
  return {e.step_time.value, static_cast<double>(e.peak.value)};
}

}  // namespace

TEST_CASE("all layers in bf16 are a bf16 training, and each one adds as much as the next") {
  for (const Precision precision : {Precision::Fp8Tensorwise, Precision::Mxfp8, Precision::Nvfp4})
    for (const int zero : {0, 1, 3})
      for (const bool experts : {false, true}) {
        CAPTURE(name(precision));
        CAPTURE(zero);
        CAPTURE(experts);
        const Layout layout = dp_only(zero);
        const auto at = [&](int first, int last) { return sizes(job(precision, first, last, experts), layout); };
        const Sizes none = at(0, 0), all = at(kDepth, 0), bf16 = sizes(job(Precision::Bf16, 0, 0, experts), layout);
        CHECK(all.time == Approx(bf16.time).epsilon(1e-6));
        CHECK(all.memory == Approx(bf16.memory).epsilon(1e-6));
        for (const auto& [first, last] : {std::pair{1, 0}, {0, 1}, {2, 3}, {5, 6}}) {
          const Sizes some = at(first, last);
          const double share = static_cast<double>(first + last) / kDepth;
          // Reductions that outlast the narrow layers hide behind wide ones: at most as much as in proportion. Small
          // experts may be slower in fp8, whose quantisers the host launches one by one.
          CHECK(some.time <= (none.time + share * (all.time - none.time)) * 1.002);
          CHECK(some.time >= std::min(none.time, all.time) * (1 - 1e-9));
          // Peaks are of the largest layer and of what one more in flight takes, so that they step and do not slide.
          CHECK(some.memory >= std::min(none.memory, all.memory) * (1 - 1e-9));
          CHECK(some.memory <= std::max(none.memory, all.memory) * 1.02);
        }
      }
}

TEST_CASE("selective recomputation of single operations rebuilds every product of NVFP4, layer by layer") {
  Layout layout = dp_only(3);
  layout.recompute = {.kind = RecomputeKind::Selective, .modules = kRecomputeOps};
  const Sizes none = sizes(job(Precision::Nvfp4, 0, 0), layout), some = sizes(job(Precision::Nvfp4, 0, 3), layout);
  const Sizes bf16 = sizes(job(Precision::Bf16, 0, 0), layout);
  CHECK(none.memory < some.memory);
  CHECK(some.memory < bf16.memory);
  const Problem narrow = job(Precision::Nvfp4, 0, 3);
  const CostModel costs(narrow, split_of(layout));
  const int front = narrow.model.layers.front(), back = narrow.model.layers.back();
  const auto again = [&](int kind) { return costs.selective_recompute(kind, kRecomputeOps).compute; };
  CHECK(again(front) > 0.5 * costs.layer(front).forward.compute);
  CHECK(again(back) < 0.5 * costs.layer(back).forward.compute);
}

TEST_CASE("in 16 bits the word changes nothing") {
  for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
    const Sizes with = sizes(job(precision, 1, 2), dp_only(1)), without = sizes(job(precision, 0, 0), dp_only(1));
    CHECK(with.time == Approx(without.time).epsilon(1e-12));
    CHECK(with.memory == without.memory);
  }
}

TEST_CASE("frameworks that quantise all layers alike refuse it, and Megatron wants a stage's layers at most") {
  const auto broken = [](Framework framework, Precision precision, int layers, int pp) {
    Problem problem = job(precision, layers, 0);
    problem.framework = framework;
    Layout layout = dp_only(1);
    layout.dp = 8 / pp, layout.pp = pp;
    const int rule = broken_rule(problem, layout);
    return rule < 0 ? std::string_view() : rules()[static_cast<std::size_t>(rule)].code;
  };
  CHECK(broken(Framework::Megatron, Precision::Mxfp8, 3, 4) != "bf16_layers_stage");
  CHECK(broken(Framework::Megatron, Precision::Mxfp8, 4, 4) == "bf16_layers_stage");
  CHECK(broken(Framework::Megatron, Precision::Nvfp4, 4, 4) != "bf16_layers_stage");
  CHECK(broken(Framework::Megatron, Precision::Fp8Delayed, 1, 1) == "bf16_layers_scaling");
  CHECK(broken(Framework::Maxtext, Precision::Mxfp8, 1, 1) == "maxtext_bf16_layers");
}
