#pragma once

#include <string>

#include "cli/report/sweep/swept_plans.hpp"
#include "cli/terminal/terminal.hpp"

namespace plan {

[[nodiscard]] std::string sweep_text(const PlanSweep& sweep, const Terminal& terminal);
[[nodiscard]] std::string sweep_csv(const PlanSweep& sweep);
[[nodiscard]] std::string sweep_html(const PlanSweep& sweep);
[[nodiscard]] std::string sweep_markdown(const PlanSweep& sweep);
/// Schema plan-sweep/1; every key is in man/plan-json.5.
[[nodiscard]] std::string sweep_json(const PlanSweep& sweep);

}  // namespace plan
