#include "random_plan.hpp"

#include <algorithm>
#include <string_view>

#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"
#include "presets/store.hpp"
#include "tests/oracle/random_layout.hpp"

namespace plan::oracle {
namespace {

template <class T>
T pick(std::mt19937& random, const std::vector<T>& values) {
  return values[random() % values.size()];
}

std::vector<std::string> models_of(Framework framework) {
  switch (framework) {
    case Framework::Torchtitan:
      return {"llama3-8b", "llama3-70b", "llama3-405b", "deepseek-v2-lite", "qwen3-32b", "qwen3-30b-a3b"};
    case Framework::Megatron:
      return {"llama3-8b",    "llama3-70b",    "llama3-405b", "qwen3-32b",
              "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "qwen3-next-80b-a3b"};
    case Framework::Maxtext: return {"llama3-8b", "llama3-70b", "llama3-405b", "mixtral-8x7b", "qwen3-14b"};
    default: return {"llama3-8b", "llama3-70b", "mixtral-8x7b", "qwen3-30b-a3b", "mistral-7b"};
  }
}

std::vector<Precision> precisions_of(Framework framework) {
  switch (framework) {
    case Framework::Torchtitan:
      return {Precision::Bf16, Precision::Bf16, Precision::Fp8Tensorwise, Precision::Mxfp8, Precision::Fp32};
    case Framework::Megatron:
      return {Precision::Bf16,          Precision::Bf16,         Precision::Fp16, Precision::Fp8Delayed,
              Precision::Fp8Tensorwise, Precision::Fp8Blockwise, Precision::Mxfp8};
    case Framework::Maxtext: return {Precision::Bf16, Precision::Bf16, Precision::Fp8Delayed, Precision::Mxfp8};
    default: return {Precision::Bf16, Precision::Bf16, Precision::Fp16};
  }
}

/// A power of two that divides `whole`, small ones more often.
int divisor(std::mt19937& random, int whole) {
  int value = 1;
  while (whole % (2 * value) == 0 && random() % 5 < 2) value *= 2;
  return value;
}

/// Layers dealt evenly, then moved by chance; none of the middle chunks is empty.
std::vector<int> random_chunks(std::mt19937& random, int layers, int chunks) {
  std::vector<int> counts(static_cast<std::size_t>(chunks), layers / chunks);
  for (int i = 0; i < layers % chunks; ++i) ++counts[random() % counts.size()];
  for (int moves = static_cast<int>(random() % 3); moves > 0; --moves) {
    int& from = counts[random() % counts.size()];
    if (from > 1) --from, ++counts[random() % counts.size()];
  }
  return counts;
}

/// Mostly nothing; else what the framework has words for.
Offload random_offload(std::mt19937& random, Framework framework) {
  if (random() % 6 != 0) return {};
  switch (framework) {
    case Framework::Megatron:
      return pick<Offload>(random, {{.optimizer = 1},
                                    {.optimizer = 0.5, .modules = kOffloadCoreAttention | kOffloadAttentionProjection},
                                    {.modules = kOffloadAttentionNorm | kOffloadQkvLinear | kOffloadMlpNorm},
                                    {.layers = 4}});
    case Framework::Torchtitan:
    case Framework::Accelerate: return {.optimizer = 1, .parameters = true};
    default:
      return pick<Offload>(random, {{.optimizer = 1}, {.parameters = true}, {.optimizer = 1, .parameters = true}});
  }
}

/// Axes that random_layout() draws itself; what rules say of any other, any of its values shows.
constexpr std::string_view kDrawn[] = {"tp",
                                       "cp",
                                       "cp_kind",
                                       "cp_ulysses",
                                       "pp",
                                       "vp",
                                       "group",
                                       "dp",
                                       "ep",
                                       "etp",
                                       "zero",
                                       "shard",
                                       "micro_batch",
                                       "schedule",
                                       "recompute",
                                       "sequence_parallel",
                                       "order",
                                       "layers",
                                       "stage_strategies"};

void draw_others(std::mt19937& random, Layout& layout) {
  each_axis([&](const auto& axis) {
    if (std::ranges::find(kDrawn, axis.key) == std::end(kDrawn)) layout.*axis.value = any_values(random).*axis.value;
  });
}

Layout random_layout(std::mt19937& random, const Problem& problem) {
  Layout l;
  draw_others(random, l);
  if (problem.gpus % 2 == 0 && random() % 2) l.pp = 2 * divisor(random, problem.gpus / 2);
  l.tp = divisor(random, std::min(8, problem.gpus / l.pp));
  l.cp = divisor(random, problem.gpus / l.tp / l.pp);
  l.dp = problem.gpus / l.tp / l.cp / l.pp;
  l.sequence_parallel = l.tp > 1 && framework_row(problem.framework).splits_sequence;
  if (problem.framework == Framework::Maxtext && random() % 3 == 0) l.sequence_parallel = false;
  if (l.cp > 1) l.cp_kind = pick<CpKind>(random, {CpKind::Ring, CpKind::AllGather, CpKind::Ulysses});
  if (problem.model.moe()) {
    l.etp = random() % 2 ? l.tp : 1;
    l.ep = divisor(random, static_cast<int>(problem.model.experts()));
  }
  l.zero = static_cast<int>(random() % 4);
  if (l.zero > 0 && random() % 3 == 0) {
    l.shard = divisor(random, l.dense_group()) * 2;
    if (l.shard >= l.dense_group()) l.shard = 0;
  }
  l.micro_batch = 1 << random() % 3;
  if (l.pp > 1) {
    l.schedule = pick<Schedule>(random, {Schedule::GPipe, Schedule::OneFOneB, Schedule::Interleaved,
                                         Schedule::BreadthFirst, Schedule::ZbV, Schedule::DualPipeV});
    const bool single = l.schedule == Schedule::GPipe || l.schedule == Schedule::OneFOneB;
    l.vp = single ? 1 : 2 + static_cast<int>(random() % 3);
    const bool outside = problem.framework == Framework::Maxtext ? l.zero != 3 : random() % 3 == 0;
    if (outside) l.order = AxisOrder::DataOutermost;
  }
  const std::vector<Recompute> recomputes = enumerate_recomputes(problem, 4);
  l.recompute = pick(random, recomputes);
  return l;
}

}  // namespace

Plan random_plan(std::mt19937& random, Framework framework, int release) {
  const StoreOptions store = StoreOptions::from_environment();
  for (;;) {
    Problem problem;
    problem.model = load_model(pick(random, models_of(framework)), store)->value;
    if (framework != Framework::Megatron) problem.model.mtp = {};
    problem.framework = framework;
    problem.release = release;
    problem.gpus = pick<int>(random, {1, 8, 16, 64, 128, 256, 1024});
    problem.training.seq = pick<std::int64_t>(random, {2048, 4096, 8192, 32768});
    problem.training.global_batch = pick<std::int64_t>(random, {64, 128, 512, 1024, 4096, 16384});
    problem.training.precision = pick(random, precisions_of(framework));
    const bool blackwell = framework == Framework::Megatron && problem.training.precision == Precision::Mxfp8;
    problem.cluster = load_cluster(blackwell ? "dgx-b200" : "dgx-h100", store)->value;
    problem.training.stack = framework_row(framework).stack;
    if (framework == Framework::Megatron) problem.training.offload = random_offload(random, framework);
    for (int i = 0; i < 200; ++i) {
      Layout layout = random_layout(random, problem);
      if (broken_rule(problem, layout) >= 0) continue;
      if (framework != Framework::Megatron && layout.zero == 3)
        problem.training.offload = random_offload(random, framework);
      const int chunks = layout.pp * layout.vp;
      if (layout.pp > 1 && framework == Framework::Maxtext)
        layout.chunk_layers.assign(static_cast<std::size_t>(chunks), problem.model.depth() / chunks);
      else if (layout.pp > 1)
        layout.chunk_layers = random_chunks(random, problem.model.depth(), chunks);
      Plan plan;
      plan.problem = problem;
      plan.best.layout = layout;
      return plan;
    }
  }
}

}  // namespace plan::oracle
