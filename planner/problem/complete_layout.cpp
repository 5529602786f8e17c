// Axes that `plan estimate --layout` leaves open. Tested by tests/cli/layout_flag_test.cpp.
#include "planner/problem/complete_layout.hpp"

#include <algorithm>

#include "formulas/schedule.hpp"

namespace plan {

void settle_stages(const Problem& problem, Layout& layout) {
  for (StageStrategy& stage : layout.stages) {
    if (stage.tp == layout.tp) stage.tp = 0;
    if (stage.zero == layout.zero) stage.zero = -1;
  }
  if (layout.stages.empty()) return;
  const StageStrategy& first = layout.stages.front();
  const bool alike = static_cast<int>(layout.stages.size()) == layout.pp &&
                     std::all_of(layout.stages.begin(), layout.stages.end(),
                                 [&](const StageStrategy& stage) { return stage == first; });
  if (!alike || first.tp > 0 || first.zero >= 0 || first.offload != problem.training.offload.layers) return;
  layout.recompute = first.recompute;
  layout.stages.clear();
}

Layout complete_layout(const Problem& problem) {
  const Fixed& fixed = problem.fixed;
  Layout layout;
  layout.tp = fixed.tp.value_or(1);
  layout.cp = fixed.cp.value_or(1);
  // As many stages, or chunks of a stage, as there are numbers of layers, or strategies.
  const int named = fixed.stages ? static_cast<int>(fixed.stages->size()) : 1;
  const int chunks = fixed.chunk_layers ? static_cast<int>(fixed.chunk_layers->size()) : named;
  layout.pp = fixed.pp.value_or(std::max(1, chunks / fixed.vp.value_or(1)));
  // Schedules of several chunks have two of them at least.
  const bool one = !fixed.schedule || schedule_row(*fixed.schedule).chunks == Chunks::One;
  layout.vp = fixed.vp.value_or(std::max(one ? 1 : 2, chunks / layout.pp));
  layout.dp = fixed.dp.value_or(std::max(1, problem.gpus / std::max(1, layout.tp * layout.cp * layout.pp)));
  layout.ep = fixed.ep.value_or(1);
  layout.etp = fixed.etp.value_or(1);
  layout.zero = fixed.zero.value_or(1);
  const LocalUpdates& local = problem.training.local;
  const bool apart = local.any() && layout.zero > 0 && layout.dp % local.copies == 0;
  layout.shard = fixed.shard.value_or(apart ? layout.dense_group() / local.copies : 0);
  layout.micro_batch = fixed.micro_batch.value_or(1);
  layout.cp_kind = fixed.cp_kind.value_or(fixed.cp_ulysses.value_or(1) > 1 ? CpKind::Hybrid : CpKind::Ring);
  layout.cp_ulysses = fixed.cp_ulysses.value_or(1);
  layout.schedule = fixed.schedule.value_or(layout.vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB);
  layout.recompute = fixed.recompute.value_or(Recompute{});
  layout.sequence_parallel = fixed.sequence_parallel.value_or(layout.tp > 1);
  layout.order =
      fixed.order.value_or(local.any() && layout.pp > 1 ? AxisOrder::DataOutermost : AxisOrder::PipelineOutermost);
  layout.chunk_layers = fixed.chunk_layers.value_or(std::vector<int>{});
  layout.stages = fixed.stages.value_or(std::vector<StageStrategy>{});
  settle_stages(problem, layout);
  return layout;
}

}  // namespace plan
