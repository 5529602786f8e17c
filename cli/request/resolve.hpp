#pragma once

#include <vector>

#include "cli/request/run_cost.hpp"
#include "cli/request/sources/request.hpp"
#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What was asked for, made into a problem; every resolved input remembers where it came from. All mistakes at once,
/// those about a word with its place.
[[nodiscard]] Result<Problem> resolve_problem(const Asked& asked);
/// Resolves what a command line asks for.
[[nodiscard]] Result<Problem> resolve_problem(const Args& args);

/// What launch files left open or misspelt.
[[nodiscard]] std::vector<Note> launch_notes(const LaunchJob& job);
/// What the files of a plan's problem left open, among the notes of the plan.
void add_launch_notes(Plan& plan);

/// Clusters of GPUs with more memory, least first: what to suggest when nothing fits.
[[nodiscard]] std::vector<Cluster> larger_clusters(const Cluster& than);

[[nodiscard]] bool wants_json(const Args& args);

}  // namespace plan
