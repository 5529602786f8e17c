// Tested by tests/planner/stage_cells_test.cpp.
#include "planner/problem/stage_layout.hpp"

#include <algorithm>
#include <iterator>

namespace plan {

bool has_own_axes(const StageStrategy& run) {
  return std::any_of(std::begin(kRunAxes), std::end(kRunAxes),
                     [&](const RunAxis& axis) { return axis.whole != nullptr && axis.stated(run); });
}

std::vector<StageStrategy> runs_of(const StageStrategy& stage) {
  std::vector<StageStrategy> runs{stage};
  runs.front().behind.clear();
  runs.insert(runs.end(), stage.behind.begin(), stage.behind.end());
  return runs;
}

void leave_to_layout(StageStrategy& run, const Layout& layout) {
  for (const RunAxis& axis : kRunAxes)
    if (axis.whole != nullptr && run.*axis.value == layout.*axis.whole) run.*axis.value = axis.least - 1;
  for (StageStrategy& behind : run.behind) leave_to_layout(behind, layout);
}

Layout layout_of_run(const Layout& layout, const StageStrategy& own) {
  Layout out = layout;
  out.stages.clear();
  out.recompute = own.recompute;
  for (const RunAxis& axis : kRunAxes)
    if (axis.whole != nullptr && axis.stated(own)) out.*axis.whole = own.*axis.value;
  const int before = layout.tp * layout.cp, replica = out.tp * out.cp;
  out.dp = layout.dp * before / replica;
  out.micro_batch = layout.micro_batch * replica / before;
  if (out.tp != layout.tp) out.sequence_parallel = out.tp > 1 && (layout.sequence_parallel || layout.tp == 1);
  return out;
}

std::optional<Layout> without_list(const Layout& layout) {
  if (layout.stages.empty()) return layout;
  if (layout.vp > 1 || layout.chunk_layers.size() != layout.stages.size()) return std::nullopt;
  int most = 0;
  bool all = true;
  const StageStrategy& front = layout.stages.front();
  for (std::size_t i = 0; i < layout.stages.size(); ++i) {
    const StageStrategy& stage = layout.stages[i];
    const bool block = stage.recompute.kind == RecomputeKind::Full && stage.recompute.uniform <= 1;
    if (!block || !stage.behind.empty() || stage.offload != front.offload || has_own_axes(stage)) return std::nullopt;
    const int layers = layout.chunk_layers[i], rebuilt = recomputed_layers(stage.recompute, 1, layers);
    most = std::max(most, rebuilt), all = all && rebuilt == layers;
  }
  for (std::size_t i = 0; i < layout.stages.size(); ++i) {
    const int layers = layout.chunk_layers[i];
    if (recomputed_layers(layout.stages[i].recompute, 1, layers) != std::min(most, layers)) return std::nullopt;
  }
  Layout out = layout;
  out.recompute = {.kind = RecomputeKind::Full, .modules = 0, .layers = all ? 0 : most};
  out.stages.clear();
  return out;
}

}  // namespace plan
