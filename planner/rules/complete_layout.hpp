#pragma once

#include "formulas/layout.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Stages that all do the same are a uniform layout, and what they say is its own; strategies that say what the layout
/// says say nothing.
void settle_stages(const Problem& problem, Layout& layout);

/// Places the layers of a pipeline again, as a plain launch has them: equally many on every chunk, embedding and
/// head counted as a layer each where that alone makes them equal. Where neither does, they are left to be balanced by
/// their work, since such a launch has to say which are where.
void place_layers(const Problem& problem, Layout& layout);

/// Gives dp what the other axes leave of the GPUs, and lets go of a number of sharing ranks that does not divide it;
/// false if dp would be no whole number.
[[nodiscard]] bool settle_dp(const Problem& problem, Layout& layout);

/// The one layout that `plan estimate` reports: fixed axes as stated, dp what the GPUs leave over, as
/// many stages as numbers of layers or strategies were given, the rest as a plain launch
/// of the framework would have it (no recompute, micro-batch 1, zero 1, sequence parallel beside tensor parallel, 1f1b
/// or interleaved).
[[nodiscard]] Layout complete_layout(const Problem& problem);

}  // namespace plan
