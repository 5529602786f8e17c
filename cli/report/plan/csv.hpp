#pragma once

#include <string>
#include <string_view>

#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A CSV cell: quoted where it must be.
[[nodiscard]] std::string csv_cell(std::string_view text);

/// Column names of csv_layout(), joined by commas; units in the names as in JSON.
[[nodiscard]] std::string csv_layout_head();

/// One layout with its numbers. Cost is that of a trillion tokens at `price` USD per GPU-hour, empty at 0; `spares` are
/// GPUs that are paid for beside those of the problem.
[[nodiscard]] std::string csv_layout(const Problem& problem, const Estimate& estimate, double price, int spares = 0);

}  // namespace plan
