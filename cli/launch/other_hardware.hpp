#pragma once

#include <span>
#include <string_view>

#include "cli/launch/format.hpp"

namespace plan {

/// What files are written for that is no GPU with a preset, by the words and variables that only its software has:
/// `Ascend NPUs`; empty: nothing says so.
[[nodiscard]] std::string_view other_hardware(std::span<const LaunchSource> files);

}  // namespace plan
