#pragma once

#include "planner/problem/problem.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// Whether the notes of a functional test quote the flags of Megatron-LM that started it.
[[nodiscard]] bool quotes_flags(const Run& run);

/// Model and stack as those flags say, and as Megatron-LM's arguments default where they do not.
void apply_flags(const Run& run, Problem& problem);

}  // namespace plan
