#pragma once

#include "formulas/cluster.hpp"
#include "formulas/hardware_profile.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Figures of a profile that its GPU cannot have by its data sheet, each with the key that states it: products beyond
/// the peak or far below it, copies likewise, more memory than the card, latencies of many milliseconds. What the data
/// sheet does not say bounds nothing.
[[nodiscard]] Errors beyond_data_sheet(const HardwareProfile& profile, const Gpu& data_sheet);

}  // namespace plan
