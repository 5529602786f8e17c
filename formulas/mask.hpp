#pragma once

#include <cstdint>

namespace plan {

/// How many keys a query is charged for.
enum class Mask : std::uint8_t {
  Causal,  ///< s/2, what a causal kernel executes (Megatron, DeepSeek)
  Full,    ///< s, the convention of PaLM and torchtitan
};

/// Keys that an average query attends to, for sequences of `seq` tokens and a window (0 = none).
///
///   shape    causal: s/2, or w - w^2/(2s) under a window w < s; full: min(s, w)
///   assumes  the continuous limit; exact sums add half a token
///   source   plan-formulas(7) B1
[[nodiscard]] constexpr double attended_tokens(double seq, double window, Mask mask) {
  const double reach = window > 0 && window < seq ? window : seq;
  return mask == Mask::Full ? reach : reach - reach * reach / (2 * seq);
}

}  // namespace plan
