#pragma once

#include "cli/terminal/streams.hpp"
#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"

namespace plan {

/// `search`, with a line on standard error after half a second if that is a terminal; the line goes away at the end.
[[nodiscard]] Result<Plan> search_with_progress(const Problem& problem, const Streams& streams);

}  // namespace plan
