#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "presets/yaml.hpp"

namespace plan {

/// A sentence about flags as a budget says it: "write `--gpus 16384`" is "write `gpus: 16384`". In `of_launch_file`
/// flags may be another tool's: only those are spelt again whose names no framework has.
[[nodiscard]] std::string spelt_as_keys(std::string_view text, bool of_launch_file = false);

/// What to write for a `key` that budgets lack, in sentences; none: it is no word of another tool. `items`: keys and
/// values of its map by turns, since a number of nodes needs the GPUs of each. `layout`: the job's, which axes that are
/// keys here are added to.
[[nodiscard]] std::vector<std::string> meant_keys(std::string_view key, const std::vector<yaml::Node>& items,
                                                  std::string layout);

}  // namespace plan
