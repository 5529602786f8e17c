#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/real_bytes.hpp"

namespace plan {

/// Times of messages on one cluster, remembered: layouts of a job share most of them. A table that a core's own cache
/// holds, in which a message takes the place of an earlier one with the same slot.
class MessageTimes {
 public:
  /// `time` is asked where the message is not known: of `bytes` in `parts`.
  template <class Time>
  Seconds of(Collective op, RealBytes bytes, double parts, const Group& group, const Time& time) {
    const Key key{bytes, parts, op, group};
    if (slots_.empty()) slots_.resize(kSlots);
    Slot& slot = slots_[slot_of(key)];
    if (!(slot.key == key)) slot = {key, time()};
    return slot.time;
  }

 private:
  static constexpr int kSlotBits = 14;
  static constexpr std::size_t kSlots = std::size_t{1} << kSlotBits;
  struct Key {
    RealBytes bytes{};
    double parts = 0;
    Collective op = Collective::AllReduce;
    Group group{.size = 0};  ///< no group is of nobody: an empty slot is of no message
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key{};
    Seconds time{};
  };
  static std::size_t slot_of(const Key& key) {
    std::uint64_t hash = std::bit_cast<std::uint64_t>(key.bytes.value) ^ static_cast<std::uint64_t>(key.op);
    const Group& group = key.group;  // the ranks of the job are nearly always the same
    for (const int part : {static_cast<int>(key.parts), group.size, group.stride, group.span, group.row})
      hash = (hash ^ (hash >> 29)) * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(part);
    return static_cast<std::size_t>((hash * 0x9e3779b97f4a7c15) >> (64 - kSlotBits));
  }

  std::vector<Slot> slots_{};
};

}  // namespace plan
