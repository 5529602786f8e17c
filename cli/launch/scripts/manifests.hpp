#pragma once

#include <optional>

#include "cli/launch/job/format.hpp"

namespace plan {

/// The command that a task of SkyPilot's or dstack's, an experiment of Determined's or Beaker's or a Kubernetes job
/// hands to its nodes, as a script on the lines of its file; nothing where the file is neither or hands over no
/// command. Of several objects of Kubernetes the one that trains counts, which `known` helps to tell: whether a reader
/// knows a script. Errors: documents that are no YAML, and several objects that train.
[[nodiscard]] Result<std::optional<LaunchSource>> script_of_manifest(const LaunchSource& source, Recognises* known);

}  // namespace plan
