#pragma once

#include <optional>

#include "cli/request/args.hpp"
#include "formulas/result.hpp"
#include "planner/plan.hpp"

namespace plan {

/// What a report adds that is no part of the plan: the whole training run.
struct RunOptions {
  std::optional<double> tokens{};          ///< tokens of the whole run
  std::optional<double> price_per_hour{};  ///< USD per GPU-hour
};

/// The whole run at the estimated speed, no failures counted.
struct RunCost {
  double tokens = 0;
  Seconds time{};
  double gpu_hours = 0;
  std::optional<double> usd{};
};
[[nodiscard]] std::optional<RunCost> run_cost(const Plan& plan, const RunOptions& options);

/// --tokens and --price.
[[nodiscard]] Result<RunOptions> resolve_run(const Args& args);

/// GPU-hours of `tokens` tokens.
[[nodiscard]] double gpu_hours(const Estimate& estimate, int gpus, double tokens);

}  // namespace plan
