#pragma once

#include <vector>

#include "cli/logs/trace.hpp"

namespace plan {

/// The part of a step that each of a trace's groups belongs to, in their order: by what the framework calls the process
/// group, else by what is sent and among how many ranks. Groups that only their stream tells apart are recognised by
/// how often they send: tensor ranks talk in every layer, data-parallel ones a few times a step.
[[nodiscard]] std::vector<Observable> parts_of_groups(const Trace& trace, const Layout& layout);

}  // namespace plan
