#pragma once

#include "planner/problem.hpp"

namespace plan {

/// Factors that turn a prediction into its 90 % interval.
struct Interval {
  double low = 1;
  double high = 1;
};

/// Of the step time and of the peak memory, by what is known about the regime: model family, scale,
/// whether the hardware was measured. Derived from the residuals on published runs.
[[nodiscard]] Interval time_interval(const Problem& problem);
[[nodiscard]] Interval memory_interval(const Problem& problem);

}  // namespace plan
