#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plan {

/// Releases of Megatron core that are known, by the number behind `0.`; the newest is the main branch's.
constexpr int kOldestMegatron = 12, kNewestMegatron = 20;

/// One flag of Megatron-LM's parser.
struct MegatronFlag {
  static constexpr int kMany = -1;
  std::string_view name;        ///< without dashes
  int values;                   ///< 0: a switch; kMany: up to the next flag
  int since = kOldestMegatron;  ///< first release that knows it; less than kOldestMegatron where older ones did, too
  int until = kNewestMegatron;  ///< last one; less than kOldestMegatron where none that is known here does
};

/// All flags, by name.
[[nodiscard]] std::span<const MegatronFlag> megatron_flags();
/// The words that Megatron-LM's parser takes behind the flag, each between blanks; empty: it takes any.
[[nodiscard]] std::string_view megatron_choices(std::string_view flag);
/// nullptr if Megatron-LM has no such flag.
[[nodiscard]] const MegatronFlag* find_megatron_flag(std::string_view name);

}  // namespace plan
