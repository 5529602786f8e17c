#pragma once

#include "planner/runs/run_problem.hpp"

namespace plan::fit {

/// Models, clusters and software of the presets, each read once.
[[nodiscard]] Catalogue preset_catalogue();

}  // namespace plan::fit
