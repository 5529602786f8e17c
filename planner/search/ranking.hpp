#pragma once

#include <cstddef>
#include <vector>

#include "formulas/layout.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/units.hpp"
#include "planner/problem/problem.hpp"
#include "planner/rules/rules.hpp"

namespace plan {

/// What the search compares.
struct Score {
  Seconds step_time{};
  RealBytes peak{};  ///< of the worst rank, middle of the interval
};

/// A layout and what it scores.
struct Candidate {
  Layout layout{};
  Score score{};
  FrameworkMask runs_on = kAllFrameworks;  ///< of those that the problem wants; 0: none runs it
  SwitchMask switched = 0;                 ///< that the search turned on
  bool by_hand = false;                    ///< a launch has to say which layers are where (plain_layers.hpp)
};

/// Strict order of choices of switches: those with fewer of them on first.
[[nodiscard]] bool fewer_switches(SwitchMask a, SwitchMask b);

/// Strict order of candidates under an objective: the objective first, then step time, peak memory and
/// smaller axes, so that no two different layouts tie.
[[nodiscard]] bool better(Objective objective, const Candidate& a, const Candidate& b);

/// Whether two layouts make the same choice of degrees.
[[nodiscard]] bool same_degrees(const Layout& a, const Layout& b);
/// Whether two layouts split the model the same way: what is left to choose is how it is fed, scheduled and kept.
/// Runners-up differ in this from the best and from each other.
[[nodiscard]] bool same_idea(const Layout& a, const Layout& b);

/// Is its step at most a share longer than the other's?
[[nodiscard]] inline bool within(const Candidate& candidate, const Candidate& other, double share) {
  return candidate.score.step_time <= (1 + share) * other.score.step_time;
}

/// The best layouts seen, at most one of those that `twins` calls the same, best first.
class Ranking {
 public:
  using Twins = bool (*)(const Layout&, const Layout&);
  Ranking(Objective objective, int size, Twins twins = same_idea)
      : objective_(objective), size_(static_cast<std::size_t>(size)), twins_(twins) {}
  void offer(const Candidate& candidate);
  void merge(const Ranking& other);
  const std::vector<Candidate>& best() const { return best_; }
  bool full() const { return best_.size() == size_; }
  /// The candidate to beat; only when full.
  const Candidate& last() const { return best_.back(); }

 private:
  Objective objective_;
  std::size_t size_;
  Twins twins_;
  std::vector<Candidate> best_{};
};

/// Layouts that no other beats in both step time and memory, fastest first.
class Front {
 public:
  void offer(const Candidate& candidate);
  void merge(const Front& other);
  /// Is some member at least as good in both, and better in one?
  bool dominates(Seconds step_time, RealBytes peak) const;
  const std::vector<Candidate>& members() const { return members_; }

 private:
  std::vector<Candidate> members_{};
};

}  // namespace plan
