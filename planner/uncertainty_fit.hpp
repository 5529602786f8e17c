// Written by tests/tools/fit_time --intervals from the runs of tests/published. Run it again instead of editing.
#pragma once

#include <array>

#include "planner/uncertainty.hpp"

namespace plan {

/// Logarithm of a residual's scale: constant, then a slope for each of doubts_of.
inline constexpr std::array<double, kDoubts + 1> kTimeScale{-2.919, 1.365, 0.027, 0.449, 0.092, 0.822, 0.588};
/// What 90 % of ln(measured / predicted) lie between, in units of that scale; of suites left out 90 %.
inline constexpr Interval kTimeBand{-2.396, 4.016};

}  // namespace plan
