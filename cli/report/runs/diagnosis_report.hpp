#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/logs/measured_run.hpp"
#include "cli/logs/trace.hpp"
#include "planner/answer/plan.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// Peak memory of the framework's allocator, beside what was predicted.
struct MemoryCompared {
  std::string kind{};  ///< "allocated", "reserved" or "device"
  RealBytes measured{}, predicted{};
  /// Switches under which the prediction would meet the measurement: "the optimizer is not sharded".
  std::vector<std::string> would_explain{};
};

/// All that `plan diagnose` found.
struct DiagnosisReport {
  Plan plan{};  ///< what was predicted
  std::vector<MeasuredLog> logs{};
  std::optional<Steady> step{};  ///< of the log
  MeasuredStep measured{};
  std::vector<TraceTimes> traces{};                     ///< one a rank; the first is the one that is compared
  std::vector<std::string> trace_files{};               ///< their names, in that order
  RealBytes snapshot_allocated{}, snapshot_reserved{};  ///< 0: no snapshot
  RealBytes device_used{};                              ///< of the fullest GPU, as nvidia-smi saw it; 0: not seen
  Diagnosis diagnosis{};
  std::vector<MemoryCompared> memory{};
  std::vector<Note> notes{};
};

/// At the peak of the worst stage: allocated, as PyTorch counts it, reserved with what its allocator holds and
/// cannot hand out, or taken of the device by everything.
[[nodiscard]] inline RealBytes predicted_memory(const Estimate& estimate, std::string_view kind) {
  const StageMemory& peak = estimate.stages[static_cast<std::size_t>(estimate.peak_stage)];
  if (kind == "device") return peak.total();
  const Bytes reserved = peak.total() - peak.outside();
  return kind == "allocated" ? reserved - peak.reserve : reserved;
}

}  // namespace plan
