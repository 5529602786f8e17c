#pragma once

#include <optional>

#include "cli/launch/job/format.hpp"

namespace plan {

/// The command that a task of SkyPilot's or dstack's, an experiment of Determined's or Beaker's or a Kubernetes job
/// hands to its nodes, as a script on the lines of
/// its file; nothing where the file is neither or hands over no command.
[[nodiscard]] std::optional<LaunchSource> script_of_manifest(const LaunchSource& source);

}  // namespace plan
