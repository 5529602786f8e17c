#pragma once

#include <string>

#include "formulas/real_bytes.hpp"
#include "formulas/result.hpp"

namespace plan {

/// What PyTorch's allocator held when `torch.cuda.memory._dump_snapshot` was called, and before.
struct MemorySnapshot {
  RealBytes reserved{};        ///< taken from the device
  RealBytes allocated{};       ///< handed out to tensors at the moment of the snapshot
  RealBytes peak_allocated{};  ///< highest in the recorded history; the snapshot's own where none was recorded
  RealBytes largest_free{};    ///< largest block that could be handed out without asking the device
  /// Share of the free bytes that the largest free block is not: 0, all free memory is in one piece.
  [[nodiscard]] double fragmentation() const {
    return reserved > allocated ? 1 - largest_free / (reserved - allocated) : 0;
  }
};

[[nodiscard]] Result<MemorySnapshot> read_snapshot(const std::string& path);

}  // namespace plan
