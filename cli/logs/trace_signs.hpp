#pragma once

#include <span>
#include <vector>

#include "cli/logs/trace.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What a trace of one rank shows beside its times that speaks for faults or against them: how often attention runs
/// forward for each time backward, which kernels do pointwise work and products, what runs beside compute, which ranks
/// a group holds, what the host waits for. `parts` and `times` are of that trace, `estimate` is what was planned.
[[nodiscard]] std::vector<Evidence> signs_of(const Trace& trace, std::span<const Observable> parts,
                                             const TraceTimes& times, const Problem& problem, const Estimate& estimate);

/// What traces of several ranks show beside each other: a rank that computes longer than the others.
[[nodiscard]] std::vector<Evidence> signs_between(std::span<const Trace> traces, std::span<const TraceTimes> times);

}  // namespace plan
