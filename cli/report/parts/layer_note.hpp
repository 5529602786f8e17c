#pragma once

#include "planner/stages/per_layer.hpp"

namespace plan {

/// What strategies of single layers would bring beside the recommended layout, and how they are had.
[[nodiscard]] Note per_layer_note(const Plan& plan, const PerLayer& found);

}  // namespace plan
