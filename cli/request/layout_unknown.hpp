#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// That an axis of --layout has no such value, with those that it has.
[[nodiscard]] tl::unexpected<Errors> unknown_layout_word(std::string_view axis, std::string_view word,
                                                         const std::vector<std::string>& known);

/// That an item of --layout names no axis, with what it may mean.
[[nodiscard]] Error unknown_axis(std::string_view text, const std::string& name, const std::string& value);

}  // namespace plan
