#pragma once

#include <string>
#include <vector>

#include "formulas/hardware_profile.hpp"

namespace plan {

/// One figure of two profiles of the same thing.
struct FigureChange {
  std::string what{};  ///< all_gather n=8 at 512 MiB
  std::string unit{};  ///< GB/s, TFLOP/s, us
  double before = 0, now = 0;
  double better = 0;          ///< share by which `now` is faster; negative: slower
  double spread = 0;          ///< of `now`
  bool beyond_noise = false;  ///< more than both spreads and 3 %
};

/// Figures that both profiles hold, in the order of a report.
[[nodiscard]] std::vector<FigureChange> common_figures(const HardwareProfile& before, const HardwareProfile& now);

/// The same, the worst change first.
[[nodiscard]] std::vector<FigureChange> compare_profiles(const HardwareProfile& before, const HardwareProfile& now);

/// What the data sheet and the program's tables expect of this GPU and network, in the shape of a profile: the same
/// sizes, shapes and groups as `like`.
[[nodiscard]] HardwareProfile expected_profile(const HardwareProfile& like, const Cluster& expected);

}  // namespace plan
