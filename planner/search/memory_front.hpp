#pragma once

#include <vector>

#include "planner/answer/plan.hpp"

namespace plan {

/// The fastest layouts under ever less memory, fastest first: points of the front of memory against step time, a step
/// of memory apart. Each is a search of its own, far cheaper than keeping the whole front (Problem::pareto).
[[nodiscard]] std::vector<Estimate> memory_front(const Problem& problem, int most_points);

/// The same with one more layout, where no point is as fast and as small as it is; points that it beats in both go.
[[nodiscard]] std::vector<Estimate> with_point(std::vector<Estimate> front, const Estimate& point);

}  // namespace plan
