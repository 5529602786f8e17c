#pragma once

#include "planner/problem/problem.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// What the software behind a published run allocated otherwise than that of today: how its loss and activations are
/// written, what its optimizer sums gradients in, how large a context it opened. Each with its source.
void apply_memory_facts(const Run& run, Problem& problem);

}  // namespace plan
