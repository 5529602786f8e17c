#pragma once

#include <string_view>

namespace plan {

/// A flag that Megatron-LM does not have and one of its forks has.
struct ForkFlag {
  enum class Meaning {
    Nothing,  ///< moves no byte, no FLOP and no message
    Same,     ///< what Megatron-LM's flag `as` says
    Own,      ///< read by its own name
    Weighs,   ///< changes model, memory or time, and is not modelled
  };
  static constexpr int kMany = -1;
  std::string_view name;
  int values = 0;  ///< kMany: up to the next flag
  Meaning meaning = Meaning::Nothing;
  std::string_view as{};  ///< Same: Megatron-LM's flag; Weighs: what would change
};

/// nullptr if no fork that is known here has the flag.
[[nodiscard]] const ForkFlag* find_fork_flag(std::string_view name);
}  // namespace plan
