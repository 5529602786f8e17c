#pragma once

#include <cstddef>
#include <vector>

#include "formulas/layout.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What the search compares.
struct Score {
  double step_time = 0;  ///< s
  double peak = 0;       ///< bytes of the worst rank, middle of the interval
};

/// A layout and what it scores.
struct Candidate {
  Layout layout{};
  Score score{};
};

/// Strict order of candidates under an objective: the objective first, then step time, peak memory and
/// smaller axes, so that no two different layouts tie.
[[nodiscard]] bool better(Objective objective, const Candidate& a, const Candidate& b);

/// Whether two layouts make the same choice of degrees: runners-up differ from each other in these.
[[nodiscard]] bool same_degrees(const Layout& a, const Layout& b);

/// The best layouts seen, at most one per choice of degrees, best first.
class Ranking {
 public:
  Ranking(Objective objective, int size) : objective_(objective), size_(static_cast<std::size_t>(size)) {}
  void offer(const Candidate& candidate);
  void merge(const Ranking& other);
  const std::vector<Candidate>& best() const { return best_; }
  bool full() const { return best_.size() == size_; }
  /// The candidate to beat; only when full.
  const Candidate& last() const { return best_.back(); }

 private:
  Objective objective_;
  std::size_t size_;
  std::vector<Candidate> best_{};
};

/// Layouts that no other beats in both step time and memory, fastest first.
class Front {
 public:
  void offer(const Candidate& candidate);
  void merge(const Front& other);
  /// Is some member at least as good in both, and better in one?
  bool dominates(double step_time, double peak) const;
  const std::vector<Candidate>& members() const { return members_; }

 private:
  std::vector<Candidate> members_{};
};

}  // namespace plan
