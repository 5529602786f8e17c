#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/scripts/pods.hpp"

namespace plan {

/// Lets a script open the files that ConfigMaps of its manifest put into its pods: those that a volume of the job's
/// parts names, or those of all ConfigMaps where it has no such volume. The error: the script names a file that two of
/// them hold, and nothing says which.
[[nodiscard]] std::optional<Error> let_open_mounted(LaunchSource& script, std::span<const ManifestDocument> all,
                                                    const std::vector<const ManifestDocument*>& job);

}  // namespace plan
