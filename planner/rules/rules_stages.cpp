// What stages that differ have to agree in. Tested by tests/planner/stage_cells_test.cpp.
#include <fmt/format.h>

#include "planner/problem/axes.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/rules.hpp"

namespace plan {

std::string stages_fault(const Problem& problem, const Layout& layout) {
  if (static_cast<int>(layout.stages.size()) != layout.pp)
    return fmt::format("it has {} for pp {}", layout.stages.size(), layout.pp);
  if (layout.recompute.kind != RecomputeKind::None)
    return fmt::format("recompute={} stands beside what each stage recomputes", recompute_text(layout.recompute));
  bool widths = false;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const StageStrategy& own = layout.stages[static_cast<std::size_t>(stage)];
    if (own.offload > 0 && (own.recompute.kind != RecomputeKind::None || problem.training.offload.modules != 0))
      return fmt::format("stage {} offloads whole layers and treats activations in another way, too", stage);
    widths = widths || own.zero >= 0 || own.tp > 0;
    if (own.tp <= 0) continue;
    if (problem.model.moe()) return "experts are spread over the ranks of all stages alike: leave `@tp` out";
    if (layout.dp * layout.tp % own.tp != 0 || layout.micro_batch * own.tp % layout.tp != 0)
      return fmt::format(
          "a stage of {} * {} GPUs that takes {} * {} sequences at once has no tp {}: dp and micro_batch "
          "would be no whole numbers",
          layout.tp, layout.dp, layout.dp, layout.micro_batch, own.tp);
    Layout alone = layout_of_stage(layout, stage);
    if (const int rule = broken_rule(problem, alone, Level::Grid); rule >= 0)
      return fmt::format("stage {}: {}", stage, broken_text(problem, alone, rule));
  }
  if (widths && (layout.vp != 1 || both_ways(layout.schedule) || layout.shard > 0 ||
                 layout.order != AxisOrder::PipelineOutermost))
    return "stages of unequal tp or ZeRO run one chunk each, one way, with the pipeline outermost and without `shard`";
  return "";
}

}  // namespace plan
