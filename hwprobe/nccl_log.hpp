#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plan {

/// What NCCL chose for one call, as NCCL_DEBUG=INFO with subsystem TUNING says it.
struct NcclChoice {
  std::string op{};  ///< AllReduce, ...
  std::int64_t bytes = 0;
  std::string algorithm{}, protocol{};  ///< RING, LL128
};
/// Names and, from older releases, numbers of algorithm and protocol; nothing for any other line.
[[nodiscard]] std::optional<NcclChoice> read_nccl_choice(std::string_view line);

/// "16 coll channels, ... 16 nvls channels, 32 p2p channels" of a communicator.
struct NcclChannels {
  int collective = 0, nvls = 0, p2p = 0;
};
[[nodiscard]] std::optional<NcclChannels> read_nccl_channels(std::string_view line);

}  // namespace plan
