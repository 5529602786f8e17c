#pragma once

#include "hwprobe/sweep/sweep_points.hpp"

namespace plan {

/// Every point that the request asks for, within its budget: points of least information go first and are listed as
/// skipped. Inside a section the order is a fixed random permutation, which separates drift from shape.
[[nodiscard]] Sweep plan_sweep(const SweepRequest& request);

/// Default time of a depth: 45 s on one GPU, 3 minutes on a node, 6 on several; 10 and 30 minutes.
[[nodiscard]] double default_budget(Depth depth, int ranks, int nodes);

}  // namespace plan
