#pragma once

#include "planner/answer/plan.hpp"

namespace plan {

/// Strategies of runs of layers beside a plan whose layers all have one strategy: the fastest that Galvatron runs, if
/// it is faster than the fastest plan. Of a plan whose figures are of one framework's software none: it runs no such
/// lists.
[[nodiscard]] PerLayer per_layer(const Plan& plan);

}  // namespace plan
