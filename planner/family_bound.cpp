// Bounds from below on the step time and the memory of all layouts of a family, without placing layers.
// Tested by tests/planner/properties_test.cpp.
#include <algorithm>
#include <limits>

#include "planner/family_search.hpp"

namespace plan {
namespace {

/// Seconds of one micro-batch: no recomputation, expert exchange hidden wherever some schedule could hide it.
double least_work(const LayerCost& cost) {
  const Phase work = cost.forward + cost.backward_input + cost.backward_weight;
  return work.total() - work.ep + std::min(work.ep, cost.paired_ep);
}

/// A rank that holds the whole model.
StageContent whole_model(const Model& model) {
  StageContent content;
  for (const int kind : model.layers) ++content.layers_of_kind[static_cast<std::size_t>(kind)];
  content.embedding = content.head = true, content.mtp = model.mtp.depth;
  return content;
}

}  // namespace

ShardedMemory least_states(const Problem& problem, const Layout& family, const std::vector<Sharding>& shardings,
                           MemoryModel& memory) {
  const StageContent content = whole_model(problem.model);
  const StageSums sums = memory.sums(content);
  Layout layout = family;
  layout.schedule = Schedule::OneFOneB;  // the rank of a DualPipe holds twice the weights
  double states = -1, communication = 0;
  for (const Sharding& sharding : shardings) {
    layout.zero = sharding.zero, layout.shard = sharding.shard;
    const ShardedMemory one = memory.sharded(layout, 0, content, sums);
    const double there = static_cast<double>(one.states().value) - one.late_grads;
    const auto buffers = static_cast<double>(one.communication.value);
    communication = states < 0 ? buffers : std::min(communication, buffers);
    states = states < 0 ? there : std::min(states, there);
  }
  constexpr double kRounding = 16;  // bytes, of the parts that ranks round
  ShardedMemory mean;
  mean.weights = round_bytes(std::max(0.0, states / family.pp - kRounding));
  mean.communication = round_bytes(communication);
  return mean;
}

double LeastStates::of(const Layout& family) {
  // No group takes less than all ranks do.
  static const std::vector<Sharding> widest = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  const std::tuple key(family.tp, family.ep, family.etp, family.pp);
  auto found = models_.find(key);
  if (found == models_.end()) found = models_.emplace(key, MemoryModel(problem_, family)).first;
  return found->second.least_total(least_states(problem_, family, widest, found->second), {});
}

double least_held(const Problem& problem, const std::vector<Recompute>& recomputes, MemoryModel& memory) {
  if (problem.training.offload.activations()) return 0;
  double bytes = 0;
  std::vector<double> least(problem.model.kinds.size(), std::numeric_limits<double>::infinity());
  for (const Recompute& choice : recomputes) {
    const bool block = choice.kind == RecomputeKind::Full;
    memory.recompute(choice);
    for (std::size_t kind = 0; kind < least.size(); ++kind) {
      const LayerMemory& layer = memory.layer(static_cast<int>(kind));
      const double whole = std::min(layer.saved, layer.checkpoint / std::max(1, choice.uniform));
      least[kind] = std::min(least[kind], block ? whole : layer.kept);
    }
  }
  for (const int kind : problem.model.layers) bytes += least[static_cast<std::size_t>(kind)];
  return bytes;
}

double least_family_time(const Problem& problem, const CostModel& costs, const Layout& family) {
  double sum = least_work(costs.embedding()) + least_work(costs.head());
  double cheapest = least_work(costs.layer(problem.model.layers.empty() ? 0 : problem.model.layers.front()));
  for (const int kind : problem.model.layers) {
    const double work = least_work(costs.layer(kind));
    sum += work, cheapest = std::min(cheapest, work);
  }
  const double m = static_cast<double>(micro_batches(problem.training.global_batch, family.dp, family.micro_batch));
  // Layers do not divide: a rank of half-stages (DualPipe) holds at least this many halves.
  const int halves = (2 * problem.model.depth() + family.pp - 1) / family.pp;
  const double busy = m * std::max(sum / family.pp, 0.5 * halves * cheapest);
  const double straggler = 1 + problem.cluster.calibration.jitter * slowest_of(family.world());
  // A shade below, so that rounding never puts the bound above the value it bounds.
  return 0.999999 * straggler * busy;
}

/// By what no order of the axes changes: the family's least time and the least memory.
FamilySearch::Fate FamilySearch::judge_run(const Layout& run, const ShardingList& shardings, const Costed& family,
                                           double& least) {
  if (costs_ != nullptr && hopeless(run, family.bound, 0, run_runs_on_)) return Fate::Pruned;
  least = least_memory(run, shardings);
  if (bounds_ && least > capacity_) return Fate::TooBig;
  return costs_ != nullptr && hopeless(run, family.bound, least, run_runs_on_) ? Fate::Pruned : Fate::Searched;
}

/// The fullest rank holds at least the mean of what all hold.
double FamilySearch::least_memory(const Layout& run, const ShardingList& shardings) {
  if (!bounds_) return 0;
  if (!memory_) memory_.emplace(problem_, run);
  const auto known = std::find_if(states_.begin(), states_.end(), [&](const StatesUnder& known_one) {
    return known_one.shardings == &shardings || known_one.shardings->all == shardings.all;
  });
  const ShardedMemory& states =
      known != states_.end()
          ? known->memory
          : states_.emplace_back(StatesUnder{&shardings, least_states(problem_, run, shardings.all, *memory_)}).memory;
  if (memory_->least_total(states, {}) > capacity_) return memory_->least_total(states, {});
  if (least_held_ < 0) least_held_ = least_held(problem_, recomputing_of(run).all, *memory_) / run.pp;
  ActivityMemory activity;  // no schedule makes a later rank hold more micro-batches than an earlier one
  activity.activations = least_held_ * held(pipeline_of(problem_, run), run.pp - 1);
  return memory_->least_total(states, activity);
}

}  // namespace plan
