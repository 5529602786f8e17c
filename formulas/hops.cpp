// What a pipeline loses to hops that differ.
//
// In the steady phase of 1F1B ranks a and b, a trip of a micro-batch from one to the other and back is covered by as
// many micro-batches as there are ranks from a to b: what their own work leaves over is waited for. The stretch in
// which that is most for a micro-batch sets the pace, so that one slow hop in a row of fast ones costs all of its time
// at each micro-batch, and two far apart cost no more than one. Checked against the simulation of the schedules. Tested
// by tests/formulas/rank_grid_test.cpp and tests/planner/simulate_test.cpp.
#include "formulas/hops.hpp"

#include <algorithm>

namespace plan {

Hops::Hops(std::span<const Seconds> each) {
  if (each.empty()) return;
  const auto [least, most] = std::minmax_element(each.begin(), each.end());
  each_ = most->value;
  if (*least == *most) return;
  double sum = 0;
  for (const Seconds hop : each) up_to_.push_back(sum), sum += hop.value;
  up_to_.push_back(sum);
  const int ranks = static_cast<int>(each.size());
  std::vector<int> slow;
  for (int r = 0; r + 1 < ranks; ++r)
    if (each[static_cast<std::size_t>(r)] > *least) slow.push_back(r);
  mean_ = before(ranks - 1) / std::max(1, ranks - 1);
  const auto rate = [&](Stretch s) { return (before(s.last) - before(s.first)) / (s.last - s.first + 1); };
  for (std::size_t count = 1; count <= slow.size(); ++count) {
    Stretch best{slow[0], slow[count - 1] + 1};
    for (std::size_t i = 1; i + count <= slow.size(); ++i)
      if (const Stretch next{slow[i], slow[i + count - 1] + 1}; rate(next) > rate(best)) best = next;
    stretches_.push_back(best);
  }
  stretches_.push_back({0, ranks - 1});
  for (const Stretch& stretch : stretches_) steady_ = std::max(steady_, rate(stretch) * ranks / (ranks - 1));
}

Seconds Hops::between(int a, int b) const {
  const int low = std::min(a, b), high = std::max(a, b), last = static_cast<int>(up_to_.size()) - 2;
  if (uniform()) return Seconds(each_);
  if (high - low == 1) return Seconds(before(high) - before(low));
  return Seconds(up_to_.back() - before(last));
}

}  // namespace plan
