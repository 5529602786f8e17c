#pragma once

#include <cstdint>
#include <string>

#include "planner/estimate/replay.hpp"

namespace plan {

/// Operations that a trace draws at most, about 20 MB of text. A longer step keeps its beginning and its end, each
/// stage has a slice that says how many operations were left out between them, and no time changes.
inline constexpr std::int64_t kMostTraced = 24'000;

/// The step as Chrome trace JSON, for ui.perfetto.dev: a process a stage; threads compute, tp, cp, ep, pp and dp;
/// arrows from a result to the operation that takes it; a counter of the memory held. Times in microseconds.
[[nodiscard]] std::string trace_report(const Plan& plan, const StepReplay& step, std::int64_t most = kMostTraced);

}  // namespace plan
