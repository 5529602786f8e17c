#pragma once

#include <string>
#include <vector>

#include "cli/check/check.hpp"

namespace plan {

/// "FAIL", "warn", "pass".
[[nodiscard]] std::string_view state_word(State state);
/// "recompute full -> none (train.sh:14): activations +8.5 GiB".
[[nodiscard]] std::string cause_text(const Finding& finding, const Cause& cause);
/// "micro_batch 2 -> 1 (train.sh:9)".
[[nodiscard]] std::string steps_text(const Suggestion& suggestion, bool with_places);
/// "54.5 GiB, 6.49 s, restores the baseline".
[[nodiscard]] std::string price_text(const Suggestion& suggestion);
/// Everything about a broken limit on one line, for annotations.
[[nodiscard]] std::string sentence(const CheckedJob& job, const Finding& finding);
/// "1 of 5 limits failed", "all 5 limits hold".
[[nodiscard]] std::string summary_text(const CheckReport& report);
/// The line to look at first: what caused the change, if a file says it, else the limit.
[[nodiscard]] const Place& first_place(const Finding& finding);

/// The limits of a job as every table has them, in words.
struct CheckRow {
  State state = State::Pass;
  std::string rule{};    ///< "memory.peak.since_baseline"
  std::string now{};     ///< "54.1 GiB → 63.0 GiB" where the baseline's figure is another
  std::string budget{};  ///< "at most 60 GiB"
  std::string change{};  ///< since the baseline, or "predicted 60 GiB" beside what was measured
  std::string margin{};  ///< "over by 3.0 GiB"
};
struct CheckTable {
  std::string now = "now", change{};  ///< the heads of those columns; no change: nothing to compare with
  std::vector<CheckRow> rows{};
};
[[nodiscard]] CheckTable check_table(const CheckedJob& job);

/// "405b: llama3-405b on 16384 x h100-sxm".
[[nodiscard]] std::string title_of(const CheckedJob& job);
/// What was predicted, measured and compared with, a line each.
[[nodiscard]] std::vector<std::string> basis_of(const CheckedJob& job);
/// Why a limit is broken and what helps: facts, "cause: seq 1 -> 2 (a.sh:4)", help.
[[nodiscard]] std::vector<std::string> reasons_of(const Finding& finding);

/// What would keep all limits of a job: its suggestions, or that none was found, and limits that would just hold.
struct CheckHelp {
  std::string what{};    ///< over the suggestions, or instead of them; empty: no help is due
  std::string larger{};  ///< over the limits that would just hold; empty: there are none
  std::vector<std::string> allowed{};
};
[[nodiscard]] CheckHelp help_for(const CheckedJob& job);

/// A finding with its job.
struct Broken {
  const CheckedJob* job = nullptr;
  const Finding* finding = nullptr;
};
/// Failures, then warnings, each in the order of the budgets.
[[nodiscard]] std::vector<Broken> broken_limits(const CheckReport& report);

/// The text as valid UTF-8 without control characters but line feed and tab.
[[nodiscard]] std::string clean_text(std::string_view text);

}  // namespace plan
