// What published runs leave open, as their authors would have found it. Tested by tests/planner/runs_test.cpp.
#include "planner/runs/run_guesses.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "planner/answer/estimate.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

constexpr int kMostExperts = 1024;
/// Modules in the order in which they cost least for what they free: norms, activations, up-projections.
constexpr std::uint16_t kCheapModules[] = {kRecomputeNorm, kRecomputeMoeActivation, kRecomputeLatentUp};
/// Largest micro-batch among which published jobs were tuned (Narayanan et al. 2021, section 5.4.3).
constexpr int kMostTuned = 4;

}  // namespace

Recompute least_recompute(const Problem& problem, Layout layout) {
  const Recompute stated = layout.recompute;
  const auto fits = [&](const Recompute& choice) {
    layout.recompute = choice;
    const Estimate estimate = plan::estimate(problem, layout);
    return estimate.peak <= estimate.capacity;
  };
  if (fits(stated)) return stated;
  if (!problem.training.stack.flash_attention)
    if (const Recompute scores{.kind = RecomputeKind::Selective, .modules = kRecomputeCoreAttention}; fits(scores))
      return scores;
  Recompute cheap{.kind = RecomputeKind::Selective};
  for (const std::uint16_t module : kCheapModules) {
    cheap.modules = static_cast<std::uint16_t>(cheap.modules | module);
    if (problem.model.moe() && problem.training.stack.states != StateLayout::Fsdp2 && fits(cheap)) return cheap;
  }
  // PyTorch's checkpointing, as FSDP and DeepSpeed wrap layers in it, is a switch for all of them.
  const StateLayout states = problem.training.stack.states;
  const Recompute whole{.kind = RecomputeKind::Full};
  if (states == StateLayout::Fsdp2 || states == StateLayout::DeepSpeed) return fits(whole) ? whole : stated;
  const auto blocks = [](int layers) { return Recompute{.kind = RecomputeKind::Full, .layers = layers}; };
  const int chunks = static_cast<int>(layout.chunks());
  int few = 0, enough = (problem.model.depth() + chunks - 1) / chunks;
  if (!fits(blocks(enough))) return stated;
  while (enough - few > 1) {
    const int middle = (few + enough) / 2;
    (fits(blocks(middle)) ? enough : few) = middle;
  }
  return blocks(enough);
}

int least_offload(Problem problem, const Layout& layout) {
  const auto fits = [&](int layers) {
    problem.training.offload.layers = layers;
    const Estimate estimate = plan::estimate(problem, layout);
    return estimate.peak <= estimate.capacity;
  };
  int few = 0, enough = problem.model.depth() / layout.pp;
  if (fits(few) || !fits(enough)) return 0;
  while (enough - few > 1) {
    const int middle = (few + enough) / 2;
    (fits(middle) ? enough : few) = middle;
  }
  return enough;
}

int fastest_expert_parallelism(const Problem& problem, Layout layout) {
  int fastest = 1;
  std::pair best(std::numeric_limits<std::int64_t>::max(), 0.0);  // bytes that lack, seconds
  for (layout.ep = 1; layout.ep <= std::min(problem.gpus, kMostExperts); ++layout.ep) {
    if (broken_rule(problem, layout) >= 0) continue;
    const Estimate estimate = plan::estimate(problem, layout);
    const std::int64_t lacks = std::max<std::int64_t>(0, estimate.peak.value - estimate.capacity.value);
    const std::pair now(lacks, estimate.step_time.value);
    if (now < best) best = now, fastest = layout.ep;
  }
  return fastest;
}

int fastest_micro_batch(const Problem& problem, Layout layout) {
  int fastest = layout.micro_batch;
  double least = plan::estimate(problem, layout).step_time.value;
  for (layout.micro_batch = 2; layout.micro_batch <= kMostTuned; layout.micro_batch *= 2) {
    if (broken_rule(problem, layout) >= 0) break;
    const Estimate estimate = plan::estimate(problem, layout);
    if (estimate.peak > estimate.capacity) break;
    if (estimate.step_time.value < least) least = estimate.step_time.value, fastest = layout.micro_batch;
  }
  return fastest;
}

void take_what_fits(const Run& run, const RunJob& job, Problem& problem, Layout& layout) {
  if (run.status == "ok" && job.offloads_to_fit && problem.training.offload.layers == 0)
    problem.training.offload.layers = least_offload(problem, layout);
  // "Selective" of fully sharded stacks is a share of the layers, which the source leaves open (fms-fsdp).
  const bool some_layers = run.recompute == "selective" && problem.training.stack.states == StateLayout::Fsdp2;
  if (some_layers) layout.recompute = {};
  if (run.status == "ok" && (some_layers || (run.recompute.empty() && job.recomputes_to_fit)))
    layout.recompute = least_recompute(problem, layout);
}

}  // namespace plan
