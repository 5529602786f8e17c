// Bounds from below on the step time and the memory of all layouts of a family, without placing layers.
// Tested by tests/planner/properties_test.cpp.
#include <algorithm>
#include <cmath>
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

std::vector<LeastActivity> least_activities(const Problem& problem, const Layout& family,
                                            const std::vector<Recompute>& recomputes, MemoryModel& memory) {
  // At most two ranks, of the embedding and of the head, are without a layer at work.
  const double at_work = family.pp > 2 ? 1 - 2.0 / family.pp : family.pp > 1 ? 0 : 1;
  std::vector<LeastActivity> least;
  for (std::size_t i = 0; i < recomputes.size(); ++i) {
    const Recompute& choice = recomputes[i];
    const bool whole = choice.kind == RecomputeKind::Full;
    if (whole && choice.layers > 0 && i + 1 < recomputes.size()) continue;  // all layers hold less and rebuild as much
    memory.recompute(choice);
    LeastActivity one;
    double transient = std::numeric_limits<double>::infinity();
    for (const int kind : problem.model.layers) {
      const LayerMemory& layer = memory.layer(kind);
      const double checkpoint = layer.checkpoint / std::max(1, choice.uniform);
      one.held += whole ? std::min(layer.saved, checkpoint) : layer.kept;
      const double rebuilt = whole ? std::max(0.0, layer.saved - layer.checkpoint) : 0;
      transient = std::min(transient, rebuilt + layer.backward_transient);
    }
    one.held = problem.training.offload.activations() ? 0 : one.held / family.pp;
    one.transient = problem.model.layers.empty() ? 0 : at_work * transient;
    least.push_back(one);
  }
  return least;
}

LeastTime least_family_time(const Problem& problem, const CostModel& costs, const Layout& family) {
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
  constexpr double kBelow = 0.999999;
  return {kBelow * straggler * busy, kBelow * straggler * sum};
}

/// Rank r of a pipeline whose backward stays in one piece begins when a chunk of every rank before it is through, both
/// ways: m w_r + (w_0 + ... + w_{r-1}) / vp seconds pass at least. That is the same on all ranks, and so least for its
/// longest, if each has a share 1 / (m vp) less work than the one before.
double LeastTime::of_run(const Layout& run, std::int64_t micro_batches) const {
  if (run.pp == 1 || splits_backward(run.schedule)) return any;
  const double part = 1.0 / run.vp, share = part / static_cast<double>(micro_batches);
  return std::max(any, part * micro_batch / (1 - std::pow(1 - share, run.pp)));
}

/// By what no order of the axes changes: the family's least time and the least memory.
FamilySearch::Fate FamilySearch::judge_run(const Layout& run, const ShardingList& shardings, const Costed& family,
                                           double& least) {
  const double time = family.bound.of_run(run, pipeline_of(problem_, run).micro_batches);
  if (costs_ != nullptr && hopeless(run, time, 0, run_runs_on_)) return Fate::Pruned;
  least = least_memory(run, shardings);
  if (bounds_ && least > capacity_) return Fate::TooBig;
  return costs_ != nullptr && hopeless(run, time, least, run_runs_on_) ? Fate::Pruned : Fate::Searched;
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
  if (least_activities_.empty()) least_activities_ = least_activities(problem_, run, recomputing_of(run).all, *memory_);
  const double flights = held(pipeline_of(problem_, run), run.pp - 1);  // no earlier rank holds fewer micro-batches
  double least = std::numeric_limits<double>::infinity();
  for (const LeastActivity& under : least_activities_) {
    ActivityMemory activity;
    activity.activations = under.held * flights, activity.backward = under.transient;
    least = std::min(least, memory_->least_total(states, activity));
  }
  return least;
}

}  // namespace plan
