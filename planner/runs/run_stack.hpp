#pragma once

#include "planner/problem/problem.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// What the code behind a published run does with memory, beyond its framework's defaults: facts that its
/// source documents, and launch flags that the row quotes as "Flags: name=value, ...".
void apply_run_facts(const Run& run, Problem& problem, Layout& layout);

}  // namespace plan
