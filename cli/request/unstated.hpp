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
  bool guessed = false;  ///< no framework's default decides it: `--strict` refuses
};

/// Every such fact of what was asked, guesses first.
[[nodiscard]] std::vector<Unstated> unstated(const std::vector<Input>& inputs);
[[nodiscard]] inline std::vector<Unstated> unstated(const Problem& problem) { return unstated(problem.inputs); }

/// `not stated: global_batch 2048, seq 8192 (preset llama3-405b)` and what files state in vain; a line each, unwrapped.
[[nodiscard]] std::vector<std::string> unstated_lines(const std::vector<Input>& inputs,
                                                      const std::vector<Note>& unused);
[[nodiscard]] inline std::vector<std::string> unstated_lines(const Problem& problem) {
  return unstated_lines(problem.inputs, problem.unused);
}

/// `llama3-8b on 64 x h100-sxm, sequence 8192, global batch 1024`: what the answer is about, as far as inputs say it.
[[nodiscard]] std::string job_text(const std::vector<Input>& inputs);

/// What `--strict` refuses: one error for all guesses, one for each fact of a file that is not used. Empty: nothing.
[[nodiscard]] Errors unsettled(const Problem& problem);

}  // namespace plan
