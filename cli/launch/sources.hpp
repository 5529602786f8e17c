#pragma once

#include <string>
#include <vector>

#include "cli/shell/launch_source.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Reads files from disk, ready to open what they name.
[[nodiscard]] Result<std::vector<LaunchSource>> load_sources(const std::vector<std::string>& paths,
                                                             const std::vector<std::string>& arguments);

}  // namespace plan
