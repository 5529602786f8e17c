#pragma once

#include <string>
#include <string_view>

#include "cli/explain/explanation.hpp"
#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"

namespace plan {

/// Where an input came from, as `plan explain` says it: "--seq", "model", "default".
[[nodiscard]] std::string input_origin(const Plan& plan, std::string_view key);

// One function a term; `stage` matters only to memory.
[[nodiscard]] Result<Explanation> explain_step_time(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_compute(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_bubble(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_tp(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_cp(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_ep(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_pp(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_dp(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_placement(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_throughput(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_mfu(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_memory(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_weights(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_grads(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_optimizer(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_activations(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_other(const Plan& plan, int stage);

[[nodiscard]] Result<Explanation> explain_recompute(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_straggler(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_optimizer_step(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_transient(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_communication(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_context(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_share(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_peak_low(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_peak_high(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_step_time_low(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_step_time_high(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_throughput_per_gpu(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_mfu_full(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_mfu_hardware(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_gpu_hours(const Plan& plan, int stage);

/// The bubble of a schedule that has no equation of its own for unequal stages.
[[nodiscard]] Result<Explanation> explain_pipeline_wait(const Plan& plan);

}  // namespace plan
