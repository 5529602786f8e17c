#pragma once

#include <optional>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/scripts/pods.hpp"

namespace plan {

/// The script of the one job of a manifest that trains; nothing where none hands over a command. Where several objects
/// hand over commands, it is that which `known` says a reader knows, else that which starts a program, else that which
/// has GPUs. Errors: several objects are such, or a file that the script names is in two ConfigMaps.
[[nodiscard]] Result<std::optional<LaunchSource>> script_of_kubernetes(const LaunchSource& source,
                                                                       const std::vector<ManifestDocument>& documents,
                                                                       Recognises* known);

}  // namespace plan
