#pragma once

#include <optional>
#include <vector>

#include "formulas/layout.hpp"

namespace plan {

/// The runs of layers of a stage, front to back, each with none behind it.
[[nodiscard]] std::vector<StageStrategy> runs_of(const StageStrategy& stage);

/// What a run and those behind it have as the layout has it is not their own.
void leave_to_layout(StageStrategy& run, const Layout& layout);

/// The layout of one run of layers in a pipeline whose stages differ: its own tp, cp, ZeRO and recomputation, with dp
/// and micro_batch so that it takes as many sequences at once on as many GPUs; the pipeline is the whole one.
[[nodiscard]] Layout layout_of_run(const Layout& layout, const StageStrategy& run);

/// The layout without a list, where one number says what its stages recompute: the same for all, or Megatron's block of
/// the first layers of each stage, of which a stage with fewer layers recomputes all. `layout` has its chunk_layers.
[[nodiscard]] std::optional<Layout> without_list(const Layout& layout);

}  // namespace plan
