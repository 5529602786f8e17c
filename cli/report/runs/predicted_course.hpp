#pragma once

#include <vector>

#include "planner/answer/plan.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// What a rank of the first stage is predicted to do over a step, as TraceTimes::course says what a rank did: the
/// pipeline's operations as the event simulator places them, each cut into compute and messages. Empty for a step of
/// too many operations to replay.
[[nodiscard]] std::vector<Observable> predicted_course(const Plan& plan);

}  // namespace plan
