#pragma once

#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"
#include "planner/problem/problem.hpp"

/// What is asked of the planner: the best layout of a job, or the report of one.
namespace plan {

/// Finds the best layout. Errors carry the smallest changes that would make the request feasible,
/// each computed by the same search with one input changed; code `no_layout` means exit status 1.
[[nodiscard]] Result<Plan> search(const Problem& problem);

/// The report of one layout, whether or not it fits. An illegal layout is an error, code `no_layout`.
[[nodiscard]] Result<Plan> plan_layout(const Problem& problem, const Layout& layout);
/// The same of the layout that is fixed, completed; a word that is not in it then is an error, code `meaningless_word`.
[[nodiscard]] Result<Plan> plan_layout(const Problem& problem);

}  // namespace plan
