#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

/// What algorithms train on that have the model answer: prompts with their answers.
namespace plan {

/// ms-swift's algorithms for which `max_length` is a prompt's alone (Command-line-parameters.md, 4.6).
[[nodiscard]] constexpr bool swift_generates(std::string_view rlhf_type) {
  return rlhf_type == "grpo" || rlhf_type == "ppo" || rlhf_type == "gkd";
}

/// Its default of `max_completion_length`, and TRL's up to 0.23 of `max_prompt_length`.
inline constexpr std::int64_t kUsualAnswer = 512, kUsualPrompt = 512;
/// TRL's own of `max_completion_length` (GRPOConfig, 0.14 to 0.24).
inline constexpr int kTrlAnswer = 256;

/// Tokens of both. `most`: what the engine that answers holds of them together; 0: not stated.
[[nodiscard]] constexpr std::int64_t with_answer(std::int64_t prompt, std::int64_t answer, std::int64_t most) {
  return most > 0 ? std::min(prompt + answer, std::max(prompt, most)) : prompt + answer;
}

}  // namespace plan
