#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plan {

/// A flag of `plan` with its value.
struct MeantFlag {
  std::string_view flag{};
  std::string value{};
};

/// What a word of the field means, without dashes in front, that `plan` calls otherwise: `nnodes` with 8 is `--gpus
/// 64`, `bf16` is `--precision bf16`. `value`: what was given with it; empty: nothing. None if it is no such word.
[[nodiscard]] std::optional<MeantFlag> meant_flag(std::string_view name, std::string_view value);

/// The same, and axes under any of their names: `tensor-parallel-size` with 8 is `--layout tp8`.
[[nodiscard]] std::optional<MeantFlag> meant_flag_or_axis(std::string_view name, std::string_view value);

/// A word as tables have it: `Megatron_LM` is `megatron-lm`.
[[nodiscard]] std::string folded(std::string_view word);

}  // namespace plan
