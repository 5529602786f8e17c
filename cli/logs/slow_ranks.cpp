// Which ranks make the others wait. Tested by tests/logs/slow_ranks_test.cpp.
#include "cli/logs/slow_ranks.hpp"

#include <algorithm>
#include <cstddef>

namespace plan {

std::vector<SlowRank> slow_ranks(std::span<const NamedTime> ranks, double slower) {
  std::vector<SlowRank> slow;
  if (ranks.size() < 2) return slow;
  std::vector<double> times;
  for (const NamedTime& rank : ranks) times.push_back(rank.time);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  for (const NamedTime& rank : ranks)
    if (rank.time > slower * *middle) slow.push_back({rank.name, rank.time, *middle});
  return slow;
}

}  // namespace plan
