#pragma once

#include <string>
#include <string_view>

#include "formulas/result.hpp"

namespace plan {

/// That an item of --layout names no axis, with what it may mean.
[[nodiscard]] Error unknown_axis(std::string_view text, const std::string& name, const std::string& value);

}  // namespace plan
