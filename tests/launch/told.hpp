#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/launch/launch.hpp"

namespace plan::launching {

/// What a reading says: each fact with its value, in a fixed order.
using Told = std::vector<std::pair<std::string, std::string>>;

/// Everything that a reading of files below `folder` says, or the mistakes that it found. What is as a job has it when
/// nobody says anything is left out. `places`: with the lines that each value is from.
[[nodiscard]] Told told(const Result<LaunchJob>& job, const std::string& folder, bool places);

/// Whether the files were refused.
[[nodiscard]] bool is_refused(const Told& told);

/// What differs, each `fact: before -> after`, `fact: value` or `no fact: value`.
[[nodiscard]] std::vector<std::string> differences(const Told& before, const Told& after);

}  // namespace plan::launching
