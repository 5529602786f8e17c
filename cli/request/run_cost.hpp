#pragma once

#include <optional>
#include <vector>

#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"
#include "planner/estimate/failures.hpp"

namespace plan {

/// What a report adds that is no part of the plan: the whole training run, and what goes wrong in it.
struct RunOptions {
  std::optional<double> tokens{};          ///< tokens of the whole run
  std::optional<double> price_per_hour{};  ///< USD per GPU-hour
  int spares = 0;                          ///< GPUs held back, of those that were given
  FailureFacts failures{};
  std::vector<Input> inputs{};  ///< as they were typed
};

/// The whole run at the estimated speed: without failures, and with those to expect where their rate is known.
struct RunCost {
  double tokens = 0;
  Seconds time{};
  double gpu_hours = 0;  ///< spare GPUs included
  std::optional<double> usd{};
  std::optional<double> goodput{};
  Seconds expected_time() const { return time * (1 / goodput.value_or(1)); }
  double expected_gpu_hours() const { return gpu_hours / goodput.value_or(1); }
  std::optional<double> expected_usd() const;
};
[[nodiscard]] std::optional<RunCost> run_cost(const Plan& plan, const RunOptions& options);

/// --tokens, --price, --spares, --gpu-mtbf, --storage and --restart.
[[nodiscard]] Result<RunOptions> resolve_run(const Args& args);

/// GPU-hours of `tokens` tokens.
[[nodiscard]] double gpu_hours(const Estimate& estimate, int gpus, double tokens);

}  // namespace plan
