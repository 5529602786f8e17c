#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/enumerate.hpp"
#include "planner/evaluate.hpp"
#include "planner/plan.hpp"

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
  /// Is some member at least as good in both?
  bool dominates(double step_time, double peak) const;
  const std::vector<Candidate>& members() const { return members_; }

 private:
  std::vector<Candidate> members_{};
};

/// What a search found, before the reports are filled in.
struct SearchResult {
  Ranking ranking{Objective::StepTime, 1};
  Front front{};
  SearchStats stats{};
  bool at_risk = false;  ///< nothing fits for certain; these fit if the prediction is right
};

/// Runs the search. `bounds` off evaluates everything: the same answer, slowly (for tests).
[[nodiscard]] SearchResult find_layouts(const Problem& problem, bool bounds = true);

/// Capacity that a predicted peak must not exceed, so that its interval fits (or, at risk, may fit).
[[nodiscard]] double usable_memory(const Problem& problem, bool at_risk);

}  // namespace plan
