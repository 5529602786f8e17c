#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/report/report.hpp"
#include "planner/plan.hpp"

namespace plan {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json layout_json(const Estimate& estimate);
[[nodiscard]] Json estimate_json(const Estimate& estimate);
/// The whole report, schema plan/1.
[[nodiscard]] Json plan_json(const Plan& plan, const RunOptions& options);
[[nodiscard]] Json inputs_json(const std::vector<Input>& inputs);

/// Two spaces, a line feed at the end, invalid UTF-8 replaced.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace plan
