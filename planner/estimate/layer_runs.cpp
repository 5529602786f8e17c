// A stage whose layers differ: each run of them costs what a stage of those layers alone would, what they keep and hold
// adds up, what lives for one layer's sake is the largest of all. Tested by tests/planner/layer_runs_test.cpp.
#include <algorithm>

#include "formulas/nccl_buffers.hpp"
#include "planner/cost/gathered.hpp"
#include "planner/estimate/evaluate.hpp"

namespace plan {
namespace {

bool share_states(const Layout& a, const Layout& b) { return a.tp == b.tp && a.cp == b.cp && a.zero == b.zero; }

/// Both together, as one part of a stage.
void join(StageContent& into, const StageContent& run) {
  for (std::size_t kind = 0; kind < into.layers_of_kind.size(); ++kind)
    into.layers_of_kind[kind] += run.layers_of_kind[kind];
  into.embedding |= run.embedding, into.head |= run.head, into.mtp += run.mtp;
  into.hands_on |= run.hands_on;
}

double layers_of(const StageContent& content) {
  double layers = 0;
  for (const int count : content.layers_of_kind) layers += count;
  return layers;
}

/// States add up, and so do weights that stay whole from forward to backward; else one layer is whole at a time.
void add_states(ShardedMemory& sum, const ShardedMemory& part, bool stay_whole) {
  const auto merge = [&](RealBytes& into, RealBytes bytes) {
    into = stay_whole ? into + bytes : std::max(into, bytes);
  };
  sum.weights += part.weights, sum.grads += part.grads, sum.optimizer += part.optimizer;
  merge(sum.forward, part.forward), merge(sum.backward, part.backward), merge(sum.head, part.head);
  merge(sum.head_reduced, part.head_reduced), merge(sum.embedding, part.embedding);
  merge(sum.next_backward, part.next_backward), merge(sum.last_backward, part.last_backward);
  sum.pool = std::max(sum.pool, part.pool);
  sum.late_grads += part.late_grads, sum.embedding_late += part.embedding_late, sum.second_late += part.second_late;
  sum.step += part.step, sum.flat += part.flat;
  sum.resident = std::max(sum.resident, part.resident);
  sum.host += part.host;
}

/// Runs are added front to back: the last one's last layer is the first whose backward pass is done.
void add_activity(ActivityMemory& sum, const ActivityMemory& run) {
  sum.but_one = sum.activations + run.but_one;
  if (sum.of_one == RealBytes()) sum.of_one = run.of_one, sum.of_two = run.of_two;
  sum.at_head += run.has_head ? run.at_head : run.activations, sum.activations += run.activations,
      sum.embedding += run.embedding;
  sum.forward = std::max(sum.forward, run.forward), sum.backward = std::max(sum.backward, run.backward);
  sum.embedding_transient =
      std::max(sum.embedding_transient, run.has_embedding ? run.embedding_transient : RealBytes());
  sum.host += run.host;
  sum.moe |= run.moe, sum.has_head |= run.has_head, sum.has_embedding |= run.has_embedding;
}

}  // namespace

StageRuns Evaluator::split_runs(std::size_t first_layer, const StageContent& content) const {
  std::vector<StageContent> runs;
  const auto front = static_cast<std::size_t>(content.cell);
  const std::vector<int>& kinds = problem_.model.layers;
  auto left = static_cast<std::size_t>(layers_of(content));
  for (std::size_t cell = front; cell == front || (cell < cells_.size() && cells_[cell].stages == 0); ++cell) {
    const bool last = cell + 1 == cells_.size() || cells_[cell + 1].stages > 0;
    const std::size_t count = last ? left : std::min(left, static_cast<std::size_t>(cells_[cell].layers));
    StageContent run{.cell = static_cast<int>(cell)};
    for (std::size_t i = 0; i < count; ++i) ++run.layers_of_kind[static_cast<std::size_t>(kinds[first_layer + i])];
    first_layer += count, left -= count;
    run.embedding = content.embedding && cell == front;
    run.head = content.head && last, run.mtp = last ? content.mtp : 0, run.hands_on = last;
    runs.push_back(run);
  }
  return grouped(std::move(runs), cells_);
}

StageRuns Evaluator::grouped(std::vector<StageContent> runs, std::span<const Cell> cells) {
  StageRuns out{std::move(runs), {}};
  const auto layout_of = [&](const StageContent& run) -> const Layout& {
    return cells[static_cast<std::size_t>(run.cell)].layout;
  };
  for (std::size_t i = 0; i < out.runs.size(); ++i) {
    const StageContent& run = out.runs[i];
    const auto known = std::find_if(out.states.begin(), out.states.end(), [&](const StateGroup& group) {
      return share_states(layout_of(group.content), layout_of(run));
    });
    if (known == out.states.end())
      out.states.push_back({run, {i}});
    else
      join(known->content, run), known->runs.push_back(i);
  }
  return out;
}

StageCost Evaluator::cost_of_runs(const StageRuns& runs) const {
  StageCost sum;
  for (const StageContent& run : runs.runs) {
    const StageCost one = run_cost(run);
    sum.forward += one.forward, sum.paired_ep += one.paired_ep;
    sum.backward_input += one.backward_input, sum.backward_weight += one.backward_weight;
    const Resharding& input = cell_of(run)->input;
    sum.forward.tp += total_of(input.forward).time, sum.backward_input.tp += total_of(input.backward).time;
  }
  return sum;
}

Phase Evaluator::recompute_of_runs(const StageRuns& runs) const {
  Phase sum;
  for (const StageContent& run : runs.runs) sum += run_recompute(run, cell_of(run)->layout.recompute);
  return sum;
}

Evaluator::Moved Evaluator::moved_of_runs(const StageRuns& runs) const {
  Moved sum;
  for (const StateGroup& group : runs.states) {
    const Cell& cell = *cell_of(group.content);
    const DataParallel price = price_of(cell.layout, *cell.memory, group.content);
    const bool again = gathers_each_pass(problem_.training, cell.layout);
    if (cell.layout.zero < 3) {
      sum.all_blocks = false, sum.late += price;
      if (cell.layout.zero == 2) sum.repeated += price.reduce;
      if (!again) continue;
    }
    StageCost cost;
    bool rebuilt = false;
    for (const std::size_t index : group.runs) {
      const StageContent& run = runs.runs[index];
      const StageCost one = run_cost(run);
      const Recompute& choice = cell_of(run)->layout.recompute;
      cost.forward += one.forward, cost.recompute += run_recompute(run, choice);
      cost.backward_input += one.backward_input, cost.backward_weight += one.backward_weight;
      rebuilt |= choice.kind == RecomputeKind::Full;
    }
    if (again) {
      sum.blocks += sent_again(price.gather, cost.forward.total(), passes_, problem_.cluster.calibration.overlap_tax,
                               problem_.training.stack.overlap_param_gather);
      continue;
    }
    sum.blocks += passes_ * block_exposed<double>(cost, price, layers_of(group.content), rebuilt);
  }
  return sum;
}

StageMemory Evaluator::stage_memory(const Layout& layout, const MemoryModel& memory, int rank,
                                    const StageContent& content, const char** instant) const {
  if (const StageRuns* runs = runs_of(content)) return memory_of_runs(*runs, rank, instant);
  const Layout& own = layout_of(content, layout);
  const MemoryModel& model = memory_of(content, memory);
  if (instant != nullptr) *instant = model.peak_instant(own, rank, content, held_by(rank));
  return model.stage(own, rank, content, held_by(rank));
}

StageMemory Evaluator::memory_of_runs(const StageRuns& runs, int rank, const char** instant) const {
  ShardedMemory states;
  std::vector<Layout> layouts;
  for (const StateGroup& group : runs.states) {
    const Cell& cell = *cell_of(group.content);
    const ShardedMemory part = cell.memory->sharded(cell.layout, rank, group.content, cell.memory->sums(group.content));
    add_states(states, part, cell.layout.zero == 2);
    layouts.push_back(cell.layout);
  }
  std::vector<GatheringGroup> between;
  for (const StageContent& run : runs.runs) {
    const std::vector<GatheringGroup> groups = groups_of(cell_of(run)->input);
    between.insert(between.end(), groups.begin(), groups.end());
  }
  const Problem& problem = problem_of(runs.runs.front());
  states.communication = round_bytes(nccl_buffers(layouts, between, nccl_platform(problem.cluster)));
  ActivityMemory activity;
  for (const StageContent& run : runs.runs) {
    const Cell& cell = *cell_of(run);
    add_activity(activity, cell.memory->activity(cell.layout, run, cell.memory->sums(run), held_by(rank)));
    activity.forward = std::max(activity.forward, total_of(cell.input.forward).bytes);
    activity.backward = std::max(activity.backward, total_of(cell.input.backward).bytes);
  }
  const MemoryModel& last = *cell_of(runs.runs.back())->memory;
  if (instant != nullptr) *instant = last.peak_instant(states, activity);
  StageMemory memory = last.stage(states, activity);
  memory.stage = rank;
  return memory;
}

}  // namespace plan
