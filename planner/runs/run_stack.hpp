#pragma once

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"
#include "planner/rules/run_software.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// What the software behind a published run does where the run does not say (presets/stacks): that of its cell
/// `framework`, and over it the files that its fact `stack` names. An Error for a name that nobody knows.
[[nodiscard]] Result<RunDefaults> defaults_of(const Run& run, const Model& model, Precision precision);

/// The same, laid into training, model and cluster. What the run states itself comes over it.
void apply_defaults(const RunDefaults& defaults, const Run& run, Problem& problem);

/// What a run says of its own: the parts of its layers, kernels, adapters and host memory that its notes name, and
/// launch flags that it quotes as "Flags: name=value, ...".
void apply_statements(const Run& run, const RunJob& job, Problem& problem, Layout& layout);

}  // namespace plan
