#pragma once

#include <optional>
#include <string_view>

#include "planner/runs/runs.hpp"

namespace plan {

/// Months since the year 0 of the first date in a text: "2025-06", a container's "25.05", an article's "2410.06511".
[[nodiscard]] std::optional<int> month_in(std::string_view text);

/// When the software behind a run was current: its release, or else when its source appeared, which cannot be earlier.
/// Later than everything where neither says.
[[nodiscard]] int software_month(const Run& run);

}  // namespace plan
