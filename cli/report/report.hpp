#pragma once

#include <optional>
#include <string>

#include "cli/terminal.hpp"
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

/// One screen of at most 80 columns and 40 lines.
[[nodiscard]] std::string human_report(const Plan& plan, const RunOptions& options, const Terminal& terminal);

/// `"schema": "plan/1"`; every key is in man/plan-json.5.
[[nodiscard]] std::string json_report(const Plan& plan, const RunOptions& options);

/// One self-contained page with pictures.
[[nodiscard]] std::string html_report(const Plan& plan, const RunOptions& options);

/// The tables of the screen as Markdown.
[[nodiscard]] std::string markdown_report(const Plan& plan, const RunOptions& options);

/// One line a layout: the best, the runners-up, the front.
[[nodiscard]] std::string csv_report(const Plan& plan, const RunOptions& options);

}  // namespace plan
