#pragma once

#include <functional>

#include "cli/report/sweep/sweep.hpp"
#include "cli/request/table/args.hpp"

namespace plan {

/// Runs `search` at every point. `progress` receives how many of how many are done.
using SweepProgress = std::function<void(int, int)>;
[[nodiscard]] Result<PlanSweep> run_sweep_points(const Args& args, const SweepProgress& progress);

}  // namespace plan
