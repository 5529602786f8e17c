#pragma once

#include <optional>

#include "formulas/result.hpp"
#include "planner/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Seconds under which no step of the problem can stay: its FLOPs, attention under its mask, at the highest peak that
/// its formats have, or the weights of a stage read once in each micro-batch at the memory's bandwidth.
[[nodiscard]] Seconds least_step(const Problem& problem, const Estimate& estimate);

/// An estimate below that is an error of this program and not an answer.
[[nodiscard]] std::optional<Error> beyond_physics(const Problem& problem, const Estimate& estimate);

}  // namespace plan
