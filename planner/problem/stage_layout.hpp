#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formulas/layout.hpp"
#include "planner/problem/axes.hpp"

namespace plan {

/// A number of a stage's strategy, by which texts, files, orders and rules know it: named once, here.
struct RunAxis {
  std::string_view word{};  ///< `@tp4` of `--layout stages=`
  int StageStrategy::*value = nullptr;
  int Layout::*whole = nullptr;  ///< what of the layout it takes the place of, null if nothing
  int least = 0, most = 0;       ///< of those that are stated; below: left to the layout
  bool stated(const StageStrategy& run) const { return run.*value >= least; }
};
inline constexpr int kMostOfRun = 100'000;  ///< layers
inline constexpr RunAxis kRunAxes[] = {
    {"layers", &StageStrategy::layers, nullptr, 1, kMostOfRun},
    {"offload", &StageStrategy::offload, nullptr, 1, kMostOfRun},
    {"tp", &StageStrategy::tp, &Layout::tp, 1, kMostRanks},
    {"cp", &StageStrategy::cp, &Layout::cp, 1, kMostRanks},
    {"zero", &StageStrategy::zero, &Layout::zero, 0, 3},
};

/// Whether a run is split or shards its states in a way of its own.
[[nodiscard]] bool has_own_axes(const StageStrategy& run);

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
