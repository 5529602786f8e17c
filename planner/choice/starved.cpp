// Plans that fit and that nobody would launch: memory leaves one slow layout, or the batch leaves nothing to do for so
// many GPUs. Each change is a search of its own, and only of a plan that is starved. Tested by
// tests/planner/starved_test.cpp.
#include "planner/choice/starved.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "planner/choice/advice.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

constexpr int kMostTimes = 8, kLeastTimes = 1024;  // GPUs, over and under the job's
constexpr std::int64_t kFamilies = 300;            // looked into by one search: a suggestion is not worth any time
constexpr double kComparable = 0.5;                // of the best lift found
constexpr double kRoomy = 0.5;                     // of the memory, which nobody lacks who fills no more of it
constexpr double kEnough = 0.2;                    // MFU
constexpr int kSeveral = 3;                        // changes that reach it end the search for others

const Estimate& present(const Plan& plan) { return plan.fastest ? *plan.fastest : plan.best; }

bool fills(const Advice& one) { return one.fastest.mfu.model_causal >= kEnough; }

/// The change if it gives each GPU `times` the tokens/s.
std::optional<Advice> lifted(const ChangedJob& change, const Problem& asked, const Plan& plan, double times) {
  const double gpus = static_cast<double>(change.problem.gpus) / plan.problem.gpus;
  std::optional<Advice> one = worth(change, asked, plan, times * gpus - 1, kFamilies);
  return one && lift(*one, plan) >= times ? std::move(one) : std::nullopt;
}

/// Of changes of one kind, the first that fills the GPUs, or else the one that lifts most. What lifts far less than
/// another kind is not worth its search.
void offer(std::vector<Advice>& all, const std::vector<ChangedJob>& changes, const Problem& asked, const Plan& plan) {
  double least = kLift;
  for (const Advice& other : all) least = std::max(least, kComparable * lift(other, plan));
  const auto tried = [&](const ChangedJob& change, const std::optional<Advice>& best) {
    return lifted(change, asked, plan, best ? kLift * lift(*best, plan) : least);
  };
  offer_best(all, changes, tried, fills);
}

/// Fewer GPUs that train nearly as fast: a quarter, and a quarter again, or else a half.
void offer_fewer(std::vector<Advice>& all, const Problem& asked, const Plan& plan) {
  std::optional<Advice> best;
  const auto tried = [&](int times) {
    if (asked.gpus % times != 0) return false;
    std::optional<Advice> one = worth(with_gpus(asked, asked.gpus / times), asked, plan, kAsFast - 1, kFamilies);
    if (!one || lift(*one, plan) < kLift) return false;
    best = std::move(one);
    // Going to a quarter once more loses at least the same share of the speed again: if that is too much, stop here.
    const double kept = 1 + best->faster;
    return kept * kept >= kAsFast;
  };
  for (int times = 4; times <= kLeastTimes && tried(times); times *= 4) continue;
  if (!best) tried(2);
  if (best) all.push_back(std::move(*best));
}

std::vector<ChangedJob> grown_gpus(const Problem& problem) {
  std::vector<ChangedJob> changes;
  for (int times = 2; times <= kMostTimes; times *= 2) changes.push_back(with_gpus(problem, problem.gpus * times));
  return changes;
}

std::vector<ChangedJob> larger_batches(const Problem& problem) {
  return {with_batch(problem, 4 * problem.training.global_batch)};
}

/// Half and a quarter, of which a step has as many tokens.
std::vector<ChangedJob> shorter_sequences(const Problem& problem) {
  std::vector<ChangedJob> changes;
  for (const int times : {2, 4}) {
    if (problem.training.seq % times != 0) continue;
    ChangedJob change = with_batch(problem, problem.training.global_batch * times);
    change.problem.training.seq /= times;
    change.flag = fmt::format("--seq {} {}", change.problem.training.seq, change.flag);
    changes.push_back(std::move(change));
  }
  return changes;
}

/// What the user's framework lacks.
std::vector<ChangedJob> freed_framework(const Problem& problem) {
  if (!named(problem.framework)) return {};
  ChangedJob change{"--framework any", problem};
  change.problem.framework = Framework::Any;
  change.problem.training.stack = stack_under(problem, framework_row(Framework::Any), problem.cluster.gpu);
  return {std::move(change)};
}

}  // namespace

double lift(const Advice& one, const Plan& plan) {
  return one.fastest.tokens_per_s_per_gpu / present(plan).tokens_per_s_per_gpu;
}

std::optional<std::vector<Advice>> starved(const Problem& asked, const Plan& plan) {
  const double mfu = present(plan).mfu.model_causal;
  if (asked.objective == Objective::Memory || !asked.pools.empty() || mfu >= kFilled) return std::nullopt;
  // Under the plan's own switches: typed, a change is at least as good, and costs one search here.
  Problem used = with_switches(asked, plan.problem.switched);
  used.gpus = plan.problem.gpus;
  const bool starving = mfu < kStarvedMfu;
  if (!starving && !lifted(with_gpus(used, 2 * used.gpus), used, plan, kFarBetter)) return std::nullopt;
  std::vector<Advice> all;
  // Where fewer train nearly as fast, more would have less to do still; and a search takes longer the more there are.
  if (starving) offer_fewer(all, used, plan);
  // Where fewer are as fast, or much memory is empty, the batch is too small, and more memory is no help. What gives
  // memory back is found soonest.
  const bool too_many = !all.empty() || present(plan).peak_high <= kRoomy * RealBytes(present(plan).capacity);
  if (!too_many) offer(all, grown_gpus(used), used, plan);
  using Changes = std::vector<ChangedJob> (*)(const Problem&);
  constexpr Changes kRoom[] = {offloads, narrower_states, shorter_sequences, other_precisions};
  constexpr Changes kWork[] = {freed_axes, freed_framework, larger_batches, graph_launches};
  const auto try_all = [&](std::span<const Changes> kinds) {
    for (const Changes& changes : kinds)
      if (std::count_if(all.begin(), all.end(), fills) < kSeveral) offer(all, changes(used), used, plan);
  };
  if (!too_many) try_all(std::span(kRoom).first(2));
  try_all(kWork);
  if (!too_many) try_all(std::span(kRoom).subspan(2));
  std::stable_sort(all.begin(), all.end(),
                   [&](const Advice& a, const Advice& b) { return lift(a, plan) > lift(b, plan); });
  return all;
}

}  // namespace plan
