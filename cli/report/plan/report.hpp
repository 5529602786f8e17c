#pragma once

#include <string>

#include "cli/request/run_cost.hpp"
#include "cli/terminal/terminal.hpp"
#include "planner/answer/plan.hpp"

namespace plan {

/// One screen of at most 80 columns and 48 lines.
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
