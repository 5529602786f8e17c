#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/report/runs/diagnosis_report.hpp"

/// What `plan diagnose` has to say, in words, once for every format that people read.
namespace plan {

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

/// TFLOP/s of a GPU at the measured step by each of our own countings: a log's figure is by one of its framework's.
struct CountedTflops {
  double causal = 0, full = 0, hardware = 0;
};
[[nodiscard]] CountedTflops counted_tflops(const DiagnosisReport& report);

/// What was read: each log with its steps, and the TFLOP/s that they mean.
[[nodiscard]] std::vector<std::string> measured_lines(const DiagnosisReport& report);

/// A part of the step, or a kind of memory, as it was measured and predicted.
struct ComparedRow {
  std::string part{}, measured{}, predicted{}, off{};
  std::string interval{};  ///< "± 0.2 s"; empty where the model states none
  bool stands_out = false;
};
[[nodiscard]] std::vector<ComparedRow> compared_rows(const DiagnosisReport& report);

/// What a step could suffer from.
struct SuspectRow {
  std::string share{};  ///< "60 %" of the likelihood
  std::string fault{}, look{}, settle{};
  std::vector<std::string> evidence{};  ///< "seen: ...", "against it: ..."
};
/// The likeliest first, at most kMostSuspects.
[[nodiscard]] std::vector<SuspectRow> suspect_rows(const DiagnosisReport& report);

/// A line of a trace's account: its name and its time.
struct TraceRow {
  std::string what{}, time{};
};
/// Of the first rank's kernels by family, what ran beside other work, and gaps.
[[nodiscard]] std::vector<TraceRow> kernel_rows(const DiagnosisReport& report);

/// What a rank computes, sends or waits for, and leaves idle in a step.
struct RankRow {
  std::string compute{}, communication{}, idle{}, file{};
};
/// A row for every rank that left a trace; none where only one did.
[[nodiscard]] std::vector<RankRow> rank_rows(const DiagnosisReport& report);

}  // namespace plan
