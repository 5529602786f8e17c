#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formulas/cluster.hpp"
#include "planner/runs/run_problem.hpp"
#include "planner/runs/runs.hpp"
#include "presets/store.hpp"

namespace plan {

/// The runs of all files in order, or every mistake of every file, each with its line.
[[nodiscard]] Result<std::vector<Run>> read_run_files(const std::vector<std::string>& paths);

/// Models and clusters by the names that runs give them, each looked up once. Presets only: a run never names a
/// file. Runs on the GPU of `own` take that cluster instead of the one the GPU usually comes in.
[[nodiscard]] Catalogue preset_catalogue(const StoreOptions& store, std::optional<Cluster> own = std::nullopt);

}  // namespace plan
