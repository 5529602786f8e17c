#pragma once

#include <optional>
#include <span>
#include <string>

#include "hwprobe/clock.hpp"
#include "hwprobe/ranks/wire.hpp"

namespace plan {

/// A connection and what is known of its other end.
struct Peer {
  int fd = -1;
  FrameReader reader{};
  SteadyClock::time_point heard = SteadyClock::now();
  std::optional<std::string> result{};
  std::string member_nonce{}, own_nonce{};  ///< of a handshake under way
};

/// Reads what has arrived; false when the other end is gone or talks nonsense.
[[nodiscard]] bool drain(Peer& peer);

/// Tells each of them that this end is alive, without waiting for any.
void send_heartbeat(std::span<const Peer> peers);

}  // namespace plan
