#pragma once

#include <string>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/estimate/budget.hpp"
#include "planner/problem/problem.hpp"

/// What a profile may be believed to have measured, quantity by quantity, and which of it an answer rests on.
namespace plan {

/// Seconds of an estimate's step that follow from quantities measured on this very hardware, as a share of the step's
/// work and messages, and the quantities that were not measured but should have been, in words. Groups count as
/// measured where the operation was measured on the same tier with as many members, or with fewer and with more.
struct ClaimCoverage {
  double share = 0;
  std::vector<std::string> missing{};
};
[[nodiscard]] ClaimCoverage time_coverage(const Problem& problem, const Estimate& estimate);

/// Whether a limit on `metric` is one on the time of a step, in another unit.
[[nodiscard]] bool rests_on_time(Metric metric);

/// Quantities that a limit on `metric` rests on and that nobody measured here. None for what counts and does not
/// measure: bytes sent, GPUs.
[[nodiscard]] std::vector<std::string> unmeasured_behind(Metric metric, const Problem& problem,
                                                         const Estimate& estimate);

}  // namespace plan
