#pragma once

#include <string>
#include <string_view>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What an item that names no axis may mean. Who reads items for a person passes it in, since what other words mean is
/// found by reading them as items.
using SayUnknown = Error (*)(std::string_view text, const std::string& name, const std::string& value);

/// Reads items between commas, without blanks: `tp8,pp16,schedule=1f1b`. Every mistake at once.
[[nodiscard]] Result<Fixed> read_items(std::string_view words, SayUnknown say_unknown);

}  // namespace plan
