#pragma once

#include <string>

#include "cli/report/report.hpp"
#include "cli/terminal/json_text.hpp"
#include "planner/plan.hpp"

namespace plan {

[[nodiscard]] Json layout_json(const Estimate& estimate);
[[nodiscard]] Json estimate_json(const Estimate& estimate);
/// The whole report, schema plan/1.
[[nodiscard]] Json plan_json(const Plan& plan, const RunOptions& options);
[[nodiscard]] Json inputs_json(const std::vector<Input>& inputs);

}  // namespace plan
