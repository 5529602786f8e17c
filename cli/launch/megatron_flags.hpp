#pragma once

#include <span>
#include <string_view>

namespace plan {

/// One flag of Megatron-LM's parser.
struct MegatronFlag {
  static constexpr int kMany = -1;
  std::string_view name;  ///< without dashes
  int values;             ///< 0: a switch; kMany: up to the next flag
};

/// All flags, by name.
[[nodiscard]] std::span<const MegatronFlag> megatron_flags();
/// nullptr if Megatron-LM has no such flag.
[[nodiscard]] const MegatronFlag* find_megatron_flag(std::string_view name);

}  // namespace plan
