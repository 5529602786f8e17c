#pragma once

#include <optional>
#include <span>
#include <string>

#include "formulas/training.hpp"

/// Which linears get adapters, by the names that models and tools have for them.
namespace plan {

struct LoraTargets {
  bool attention = true, ffn = true;
  std::string
      counted_as{};  ///< what is said where adapters are counted that no name asks for, or the reverse; or empty
};

/// Names of modules, or patterns that hold some; nothing where they are all linears there are.
[[nodiscard]] std::optional<LoraTargets> lora_targets(std::span<const std::string> words);

}  // namespace plan
