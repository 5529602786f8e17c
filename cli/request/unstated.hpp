#pragma once

#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A fact that the answer rests on and that nobody stated.
struct Unstated {
  std::string field{};   ///< "global_batch"
  std::string value{};   ///< "2048"
  std::string origin{};  ///< "preset llama3-405b", "default of torchtitan", "plan's default"
  bool guessed = false;  ///< no framework's default settles it: `--strict` refuses
};

/// Every such fact of a problem, guesses first.
[[nodiscard]] std::vector<Unstated> unstated(const Problem& problem);

/// `not stated: global_batch 2048, seq 8192 (preset llama3-405b)` and what files state in vain; a line each, unwrapped.
[[nodiscard]] std::vector<std::string> unstated_lines(const Problem& problem);

/// What `--strict` refuses: one error for all guesses, one for each fact of a file that is not used. Empty: nothing.
[[nodiscard]] Errors unsettled(const Problem& problem);

}  // namespace plan
