#pragma once

#include "planner/problem/problem.hpp"
#include "planner/rules/run_software.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// The least recomputation with which a layout fits, for runs that say nothing of theirs: scores of unfused attention,
/// then cheap modules of routed layers, then as few whole layers of each chunk as suffice (Megatron's `block`), or all
/// where frameworks have but one switch. What fits with none of it stays as it is.
[[nodiscard]] Recompute least_recompute(const Problem& problem, Layout layout);
/// The fewest layers of a stage whose activations have to wait in host memory for a layout to fit; none where it fits
/// without, or not even with all of them there.
[[nodiscard]] int least_offload(Problem problem, const Layout& layout);
/// The expert parallelism of a run that states none: the fastest that fits, or else the one that lacks least memory.
[[nodiscard]] int fastest_expert_parallelism(const Problem& problem, Layout layout);
/// The micro-batch of a run that states none, as its authors would have tuned it: the fastest that fits.
[[nodiscard]] int fastest_micro_batch(const Problem& problem, Layout layout);

/// What a run that ran kept off its GPUs or made twice, where its row leaves that open: as little as it took to fit.
void take_what_fits(const Run& run, const RunJob& job, Problem& problem, Layout& layout);

}  // namespace plan
