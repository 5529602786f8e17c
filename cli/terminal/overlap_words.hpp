#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formulas/names.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Messages that run beside compute, by OverlapBit: all those that are named, and no other.
struct Overlap {
  std::uint8_t parts = 0;
  bool operator==(const Overlap&) const = default;
};

/// Reads `--overlap none` or `grads+params+tp`. Every mistake at once.
[[nodiscard]] Result<Overlap> read_overlap(std::string_view text);

/// How tokens reach the ranks of their experts.
enum class Dispatcher : std::uint8_t {
  AllToAll,  ///< one copy of a token for each of its experts
  Flex       ///< one copy for each node that has experts of it (DeepEP, HybridEP)
};

/// Megatron core's words for --moe-token-dispatcher-type.
inline constexpr Named<Dispatcher> kDispatcherNames[] = {{Dispatcher::AllToAll, "alltoall"},
                                                         {Dispatcher::Flex, "flex"}};

}  // namespace plan
