// Axes that `plan estimate --layout` leaves open. Tested by tests/cli/layout_flag_test.cpp.
#include "planner/rules/complete_layout.hpp"

#include <algorithm>

#include "formulas/partition.hpp"
#include "formulas/schedule.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {

namespace {

/// Neighbouring runs that do the same are one. A block of recomputed or offloaded layers is counted from a run's first.
void join_runs(StageStrategy& stage) {
  const auto joins = [](StageStrategy a, const StageStrategy& b) {
    const bool whole = a.recompute.layers == 0 && a.recompute.uniform <= 1 && a.offload == 0;
    a.layers = b.layers;
    return whole && a == b;
  };
  std::vector<StageStrategy> runs;
  for (const StageStrategy& run : runs_of(stage)) {
    if (runs.empty() || !joins(runs.back(), run))
      runs.push_back(run);
    else
      runs.back().layers = run.layers == 0 ? 0 : runs.back().layers + run.layers;
  }
  stage = runs.front();
  stage.behind.assign(runs.begin() + 1, runs.end());
}

}  // namespace

void settle_stages(const Problem& problem, Layout& layout) {
  for (StageStrategy& stage : layout.stages) {
    leave_to_layout(stage, layout);
    if (!stage.behind.empty()) join_runs(stage);
  }
  if (layout.stages.empty()) return;
  const StageStrategy& first = layout.stages.front();
  const bool equal = static_cast<int>(layout.stages.size()) == layout.pp &&
                     std::all_of(layout.stages.begin(), layout.stages.end(),
                                 [&](const StageStrategy& stage) { return stage == first; });
  if (!equal || !first.behind.empty() || first.tp > 0 || first.cp > 0 || first.zero >= 0 ||
      first.offload != problem.training.offload.layers)
    return;
  layout.recompute = first.recompute;
  layout.stages.clear();
}

void place_layers(const Problem& problem, Layout& layout) {
  const bool placed = layout.pp > 1 && problem.model.depth() > 0;
  layout.chunk_layers =
      placed ? plain_chunks(problem.model.depth(), static_cast<int>(layout.chunks())) : std::vector<int>{};
}

bool settle_dp(const Problem& problem, Layout& layout) {
  const std::int64_t inner = static_cast<std::int64_t>(layout.tp) * layout.cp * layout.pp;
  if (inner <= 0 || problem.gpus % inner != 0) return false;
  layout.dp = static_cast<int>(problem.gpus / inner);
  if (layout.shard > 0 && layout.dense_group() % layout.shard != 0) layout.shard = 0;
  return true;
}

Layout complete_layout(const Problem& problem) {
  const Fixed& fixed = problem.fixed;
  Layout layout;
  each_axis([&](const auto& axis) {
    if (fixed.*axis.fixed) layout.*axis.value = *(fixed.*axis.fixed);
  });
  // As many stages, or chunks of a stage, as there are numbers of layers, or strategies.
  const int named = fixed.stages ? static_cast<int>(fixed.stages->size()) : 1;
  const int chunks = fixed.chunk_layers ? static_cast<int>(fixed.chunk_layers->size()) : named;
  if (!fixed.pp) layout.pp = std::max(1, chunks / layout.vp);
  // Schedules of several chunks have two of them at least.
  const int least = schedule_row(layout.schedule).chunks == Chunks::One ? 1 : 2;
  if (!fixed.vp) layout.vp = std::max(least, chunks / layout.pp);
  if (!fixed.dp) layout.dp = std::max(1, problem.gpus / std::max(1, layout.tp * layout.cp * layout.pp));
  const LocalUpdates& local = problem.training.local;
  const bool apart = local.any() && layout.zero > 0 && layout.dp % local.copies == 0;
  if (!fixed.shard && apart) layout.shard = layout.dense_group() / local.copies;
  if (!fixed.cp_kind && layout.cp_ulysses > 1) layout.cp_kind = CpKind::Hybrid;
  if (!fixed.schedule && layout.vp > 1) layout.schedule = Schedule::Interleaved;
  const FrameworkRow& row = framework_row(problem.framework);
  if (!fixed.sequence_parallel) layout.sequence_parallel = layout.tp > 1 && row.splits_sequence;
  if (!fixed.recompute && row.rebuilds_all) layout.recompute = {.kind = RecomputeKind::Full};
  if (!fixed.order && local.any() && layout.pp > 1) layout.order = AxisOrder::DataOutermost;
  if (!fixed.chunk_layers) place_layers(problem, layout);
  settle_stages(problem, layout);
  return layout;
}

}  // namespace plan
