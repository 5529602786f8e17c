#pragma once

#include <string>
#include <string_view>

#include "cli/report/explanation.hpp"
#include "formulas/result.hpp"
#include "planner/plan.hpp"

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
[[nodiscard]] Result<Explanation> explain_throughput(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_mfu(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_memory(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_weights(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_grads(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_optimizer(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_activations(const Plan& plan, int stage);
[[nodiscard]] Result<Explanation> explain_other(const Plan& plan, int stage);

}  // namespace plan
