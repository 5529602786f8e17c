#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "planner/plan.hpp"

namespace plan {

using Json = nlohmann::ordered_json;

[[nodiscard]] Json layout_json(const Estimate& estimate);
[[nodiscard]] Json estimate_json(const Estimate& estimate);
[[nodiscard]] Json inputs_json(const std::vector<Input>& inputs);

/// Two spaces, a line feed at the end, invalid UTF-8 replaced.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace plan
