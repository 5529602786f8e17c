#pragma once

#include <string>
#include <string_view>

#include "planner/answer/plan.hpp"

namespace plan {

// Parts of the HTML report, each from the numbers that the screen's table prints.

/// "step time: how" that opens into the formula; nothing where no equation is known.
[[nodiscard]] std::string formula_details(const Plan& plan, std::string_view term, int stage);
/// The formula alone; nothing where no equation is known.
[[nodiscard]] std::string formula_block(const Plan& plan, std::string_view term, int stage);

[[nodiscard]] std::string memory_html(const Plan& plan);
[[nodiscard]] std::string time_html(const Plan& plan);
[[nodiscard]] std::string communication_html(const Plan& plan);
[[nodiscard]] std::string front_html(const Plan& plan);
[[nodiscard]] std::string runners_up_html(const Plan& plan);
[[nodiscard]] std::string search_html(const Plan& plan);
[[nodiscard]] std::string inputs_html(const Plan& plan);

}  // namespace plan
