#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/launch/job/format.hpp"

namespace plan {

/// The head of a log up to the end of the arguments that its job printed, with empty lines for all before them; nothing
/// if it printed none. A log may be of any length.
[[nodiscard]] std::optional<std::string> printed_arguments(const std::string& path);

}  // namespace plan
