#pragma once

#include <set>
#include <string>
#include <vector>

#include "cli/launch/job/format.hpp"

namespace plan {

/// Adds the files that the scripts' commands name and that a reader knows: `--config run.toml`, `--config_file
/// accelerate.yaml`. Words that lie over them go with them, others are a note of the script's.
/// @return the scripts that name one, or an error for each degree that a command states beside them
[[nodiscard]] Result<std::set<std::string>> add_named_files(std::vector<LaunchSource>& files, Recognises* known);

}  // namespace plan
