#pragma once

#include "formulas/result.hpp"
#include "planner/runs/catalogue.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// Builds model, cluster, training and layout of a run. What the row does not state is its framework's
/// documented default. The error's message is the reason why the row cannot be scored.
[[nodiscard]] Result<RunProblem> problem_of(const Run& run, const Catalogue& catalogue);

}  // namespace plan
