#pragma once

namespace plan {

/// Standard deviations either side of the mean that hold 90 % of a normal variable.
inline constexpr double kNinetyPercent = 1.6448536269514722;

}  // namespace plan
