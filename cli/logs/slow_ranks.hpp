#pragma once

#include <span>
#include <string>
#include <vector>

namespace plan {

/// A rank, or the file that it wrote, and how long the same work took it.
struct NamedTime {
  std::string name{};
  double time = 0;
};

/// A rank that takes longer than the others do.
struct SlowRank {
  std::string name{};
  double time = 0;
  double usual = 0;  ///< what the others take, in the unit of `time`
};

/// Ranks that take more than `slower` times what is usual among them. Of two ranks the quicker one is usual: which of
/// an even number lies in the middle is decided for the quicker, or else two ranks could never differ.
[[nodiscard]] std::vector<SlowRank> slow_ranks(std::span<const NamedTime> ranks, double slower = 1.03);

}  // namespace plan
