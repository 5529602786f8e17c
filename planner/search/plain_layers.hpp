#pragma once

#include "planner/cost/cost.hpp"
#include "planner/problem/problem.hpp"
#include "planner/search/plainness.hpp"
#include "planner/search/ranking.hpp"

namespace plan {

/// The candidate with its layers where frameworks put them by default: equally many on every chunk, embedding
/// and head counted as a layer each or not. Where that takes more than is allowed or than `capacity`, or no wanted
/// framework runs it, the candidate as it is, said to be laid by hand. `costs` are those of its split.
[[nodiscard]] Candidate plainly_laid(const Problem& problem, const CostModel& costs, Candidate candidate,
                                     const Allowance& allowance, RealBytes capacity, RealBytes host);

}  // namespace plan
