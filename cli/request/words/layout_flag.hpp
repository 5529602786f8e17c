#pragma once

#include <string_view>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Reads `--layout tp8,pp16,schedule=1f1b,recompute=full,sp`. Every mistake at once.
[[nodiscard]] Result<Fixed> read_layout(std::string_view text);

}  // namespace plan
