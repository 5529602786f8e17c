#pragma once

#include <optional>

#include "formulas/result.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Seconds under which no step of the problem can stay: its FLOPs, attention under its mask, at the highest peak that
/// its formats have, or the weights of a stage read once in each micro-batch at the memory's bandwidth.
[[nodiscard]] Seconds least_step(const Problem& problem, const Estimate& estimate);

/// FLOP/s of the highest peak that products of a training in that format reach, those in 16 bits among them.
[[nodiscard]] double peak_flops(const Gpu& gpu, Precision precision);

/// The first of these alone: seconds that the FLOPs of a step take at that peak. `tp`: of the layout.
[[nodiscard]] Seconds least_compute(const Problem& problem, int tp);

/// An estimate below that is an error of this program and not an answer.
[[nodiscard]] std::optional<Error> beyond_physics(const Problem& problem, const Estimate& estimate);

}  // namespace plan
