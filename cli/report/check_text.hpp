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
