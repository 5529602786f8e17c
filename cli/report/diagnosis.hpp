#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/logs/measured_run.hpp"
#include "cli/logs/trace.hpp"
#include "cli/terminal/terminal.hpp"
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
[[nodiscard]] RealBytes predicted_memory(const Estimate& estimate, std::string_view kind);

/// What was measured against what was predicted, "+4.1 %"; "-" where nothing was.
[[nodiscard]] std::string off_text(double measured, double predicted);

inline constexpr std::size_t kMostSuspects = 4;  ///< of those that are printed for people
[[nodiscard]] inline std::string_view part_name(Observable part) {
  return kObservableNames[static_cast<std::size_t>(part)];
}
/// What is said of the step where no fault is suspected: a sentence; empty where one is, or where nothing was measured.
[[nodiscard]] std::string unsuspected_text(const Diagnosis& diagnosis);
/// "besides: a slow link, by a factor of 0.31".
[[nodiscard]] std::string fault_text(const Suspect& suspect);
/// Lines on memory: where it ran out, and what would explain what was measured. Those that go into detail are indented.
[[nodiscard]] std::vector<std::string> memory_lines(const DiagnosisReport& report);

[[nodiscard]] std::string diagnosis_text(const DiagnosisReport& report, const Terminal& terminal);
/// Schema plan-diagnose/1; every key is in man/plan-json.5.
[[nodiscard]] std::string diagnosis_json(const DiagnosisReport& report);
[[nodiscard]] std::string diagnosis_markdown(const DiagnosisReport& report);
[[nodiscard]] std::string diagnosis_html(const DiagnosisReport& report);

}  // namespace plan
