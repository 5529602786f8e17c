#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "streams.hpp"
#include "truth.hpp"

/// What an operation of a communicator brings from each rank and leaves on it.
namespace answering {

struct Send {
  int peer;
  const char* data;
  std::size_t bytes;
};
struct Receive {
  int peer;
  char* data;
  std::size_t bytes;
};
/// One operation of this rank, until its group ends.
struct Call {
  std::string op;
  const char* in = nullptr;
  char* out = nullptr;
  std::size_t bytes = 0;  ///< nccl-tests' size
  std::size_t share = 0;  ///< of one rank
  ncclDataType_t type = ncclFloat32;
  std::vector<Send> sends{};
  std::vector<Receive> receives{};
  cudaStream_t stream = nullptr;
  bool largest = false;  ///< instead of the sum
};

/// The data that this rank brings into an operation; nothing for large ones.
inline std::string brought(const Call& call) {
  std::string data;
  if (!call.sends.empty()) {
    for (const Send& send : call.sends) {
      if (send.bytes > 1024) return {};
      const auto peer = static_cast<std::int64_t>(send.peer), bytes = static_cast<std::int64_t>(send.bytes);
      data.append(reinterpret_cast<const char*>(&peer), 8).append(reinterpret_cast<const char*>(&bytes), 8);
      data.append(send.data, send.bytes);
    }
    return data;
  }
  const std::size_t own = call.op == "all_gather" ? call.share : call.bytes;
  return own <= 4096 && call.in != nullptr ? std::string(call.in, own) : std::string();
}

inline void combine(char* to, const char* from, std::size_t bytes, const Call& call) {
  if (call.type != ncclFloat32) return;
  for (std::size_t at = 0; at + 4 <= bytes; at += 4) {
    float a = 0, b = 0;
    std::memcpy(&a, to + at, 4), std::memcpy(&b, from + at, 4);
    a = call.largest ? std::max(a, b) : a + b;
    std::memcpy(to + at, &a, 4);
  }
}

/// What the operation leaves on this rank, from what everyone brought.
inline void finish(const Call& call, const std::vector<std::string>& all, int rank) {
  const std::string& own = all[static_cast<std::size_t>(rank)];
  if (own.empty()) return;
  if (call.op == "all_reduce" || call.op == "reduce_scatter") {
    std::string sum = all[0];
    for (std::size_t r = 1; r < all.size(); ++r)
      combine(sum.data(), all[r].data(), std::min(sum.size(), all[r].size()), call);
    const bool scattered = call.op == "reduce_scatter";
    std::memcpy(call.out, sum.data() + (scattered ? static_cast<std::size_t>(rank) * call.share : 0),
                scattered ? call.share : sum.size());
  }
  if (call.op == "all_gather")
    for (std::size_t r = 0; r < all.size(); ++r) std::memcpy(call.out + r * call.share, all[r].data(), call.share);
  if (call.op == "broadcast") std::memcpy(call.out, all[0].data(), all[0].size());
  for (const Receive& receive : call.receives) {
    const std::string& from = all[static_cast<std::size_t>(receive.peer)];
    for (std::size_t at = 0; at + 16 <= from.size();) {
      std::int64_t peer = 0, bytes = 0;
      std::memcpy(&peer, from.data() + at, 8), std::memcpy(&bytes, from.data() + at + 8, 8);
      if (peer == rank) std::memcpy(receive.data, from.data() + at + 16, static_cast<std::size_t>(bytes));
      at += 16 + static_cast<std::size_t>(bytes);
    }
  }
  const std::string wrong = truth::of_rank("wrong", own_rank());  // an operation whose data is damaged on one rank
  if (wrong != call.op) return;
  char* const damaged = call.receives.empty() ? call.out : call.receives.back().data;
  damaged[3] = static_cast<char>(damaged[3] ^ 0x40);
}

}  // namespace answering
