#pragma once

#include <optional>
#include <string>

#include "planner/runs/catalogue.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// GB that a source prints for GiB, or the other way round.
inline constexpr double kLooseUnit = 0x1p30 / 1e9;

/// Step time that the source measured, in seconds, from the first figure that it gives of step_time_s,
/// tokens_per_s_per_gpu, tflops_per_gpu and mfu; nullopt if none.
[[nodiscard]] std::optional<double> measured_step_time(const Run& run, const RunProblem& built);

/// The least and the most that any convention counts as FLOPs of a token of training, recomputed ones among them.
struct CountedFlops {
  double least = 0, most = 0;
};
[[nodiscard]] CountedFlops counted_by_any(const Model& model, double seq);

/// The highest FLOP/s of a GPU that a source may print: the peak, times what the most generous convention counts over
/// the FLOPs that are done. Full attention is twice what a causal mask leaves. `tp`: of the layout.
[[nodiscard]] double most_printed_flops(const Problem& problem, int tp);

/// Why the figures of a row cannot all be of one run, in a sentence: seconds and tokens, or two rates of FLOPs, that
/// are two different steps, a step under what the GPUs need at their peak, more memory than a GPU has. Empty if they
/// can.
[[nodiscard]] std::string figure_mistake_of(const Run& run, const RunProblem& built);

/// A rate of FLOPs that is not of the step which seconds or tokens state, in a sentence. Whatever peak and convention
/// its source counted with, the step is known without it. Empty if there is none.
[[nodiscard]] std::string rate_remark_of(const Run& run, const RunProblem& built);

/// What is amiss with a step that takes many times what is predicted for its row at most, `high`: it is of another
/// unit, of several steps or of another batch. Empty for one that is not; no published run that is of its row is so far
/// off.
[[nodiscard]] std::string far_step(double measured, double predicted, double high);

}  // namespace plan
