#pragma once

#include <optional>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/answer/plan.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Rules of thumb (formulas/textbook/rules_of_thumb.hpp) that a layout breaks, the furthest from its limit first. The
/// critical batch grows with the tokens of the run: where nobody says, it is that of a run without end.
[[nodiscard]] std::vector<BrokenThumb> broken_rules_of_thumb(const Problem& problem, const Estimate& estimate,
                                                             std::optional<double> tokens = std::nullopt);

}  // namespace plan
