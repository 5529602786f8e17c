#pragma once

#include <chrono>

namespace plan {

using SteadyClock = std::chrono::steady_clock;

/// Seconds from then to now.
[[nodiscard]] inline double since(SteadyClock::time_point then) {
  return std::chrono::duration<double>(SteadyClock::now() - then).count();
}

}  // namespace plan
