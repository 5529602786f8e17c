#pragma once

#include <string>
#include <vector>

#include "cli/report/diagnosis.hpp"

/// What `plan diagnose` has to say, in words, once for every format that people read.
namespace plan {

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
