#pragma once

// Strategies of runs of layers: tp, cp, ZeRO and recomputation of every layer by itself, as Galvatron's lists have
// them.

#include <cstdint>
#include <span>

#include "planner/stages/stage_search.hpp"

namespace plan {

/// Pipelines whose step is weighed exactly, of one (GPUs and sequences of a stage, ZeRO).
inline constexpr std::int64_t kMostMixesWeighed = 400;

/// The fastest way to give every layer of a pipeline one of some strategies, within `capacity` and in less than `beat`.
/// `base` is all axes but those; without `chunk_layers` its layers are balanced. Exact if the layers of no
/// stage can be mixed in more than kMostMixes ways (planner/stages/layer_choices.hpp), and no more than `most`
/// pipelines are left to weigh. The layout found has the tp and cp of its first layers.
[[nodiscard]] StageSearch best_runs(StageModels& models, const Problem& problem, const Layout& base,
                                    std::span<const StageStrategy> ways, RealBytes capacity, Seconds beat,
                                    std::int64_t most = kMostMixesWeighed);

/// The same over all degrees that Galvatron runs, in the order of a bound from below.
[[nodiscard]] StageSearch find_runs(const Problem& problem, RealBytes capacity, Seconds beat);

}  // namespace plan
