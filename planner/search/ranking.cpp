// Order of candidates, the best of them and their front. Tested by tests/planner/search_test.cpp.
#include "planner/search/ranking.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>
#include <utility>

#include "planner/problem/axes.hpp"

namespace plan {
namespace {

/// Strict order: what was scored, then smaller axes.
bool before(const Candidate& a, const Candidate& b) {
  if (a.score.step_time != b.score.step_time) return a.score.step_time < b.score.step_time;
  if (a.score.peak != b.score.peak) return a.score.peak < b.score.peak;
  if (a.switched != b.switched) return fewer_switches(a.switched, b.switched);
  return precedes(a.layout, b.layout);
}

}  // namespace

bool fewer_switches(SwitchMask a, SwitchMask b) {
  return std::pair(std::popcount(a), a) < std::pair(std::popcount(b), b);
}

bool better(Objective objective, const Candidate& a, const Candidate& b) {
  if (objective == Objective::Memory && a.score.peak != b.score.peak) return a.score.peak < b.score.peak;
  return before(a, b);
}

bool same_degrees(const Layout& a, const Layout& b) {
  const auto key = [](const Layout& l) { return std::tuple(l.tp, l.cp, l.pp, l.vp, l.dp, l.ep, l.etp, l.micro_batch); };
  return key(a) == key(b);
}

bool same_idea(const Layout& a, const Layout& b) {
  const auto key = [](const Layout& l) { return std::tuple(l.tp, l.cp, l.pp, l.ep); };
  return key(a) == key(b);
}

void Ranking::offer(const Candidate& candidate) {
  if (full() && !better(objective_, candidate, best_.back())) return;
  const auto twin =
      std::find_if(best_.begin(), best_.end(), [&](const Candidate& c) { return twins_(c.layout, candidate.layout); });
  if (twin != best_.end()) {
    if (!better(objective_, candidate, *twin)) return;
    best_.erase(twin);
  }
  const auto place =
      std::find_if(best_.begin(), best_.end(), [&](const Candidate& c) { return better(objective_, candidate, c); });
  best_.insert(place, candidate);
  if (best_.size() > size_) best_.pop_back();
}

void Ranking::merge(const Ranking& other) {
  for (const Candidate& candidate : other.best_) offer(candidate);
}

void Front::offer(const Candidate& candidate) {
  const auto time = candidate.score.step_time;
  const auto peak = candidate.score.peak;
  // Members ascend in time and descend in memory: the last one that is as fast needs the least.
  auto place = std::partition_point(members_.begin(), members_.end(),
                                    [&](const Candidate& member) { return member.score.step_time <= time; });
  if (place != members_.begin()) {
    const Candidate& best = *std::prev(place);
    const bool equal = best.score.step_time == time && best.score.peak == peak;
    if (best.score.peak <= peak && !(equal && before(candidate, best))) return;
    if (best.score.step_time == time) --place;
  }
  const auto beaten =
      std::partition_point(place, members_.end(), [&](const Candidate& member) { return member.score.peak >= peak; });
  place = members_.erase(place, beaten);
  members_.insert(place, candidate);
}

void Front::merge(const Front& other) {
  for (const Candidate& candidate : other.members_) offer(candidate);
}

bool Front::dominates(Seconds step_time, RealBytes peak) const {
  const auto after = std::partition_point(members_.begin(), members_.end(),
                                          [&](const Candidate& member) { return member.score.step_time <= step_time; });
  if (after == members_.begin()) return false;
  const Score& best = std::prev(after)->score;
  return best.peak < peak || (best.peak == peak && best.step_time < step_time);
}

}  // namespace plan
