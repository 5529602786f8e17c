#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "planner/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

struct Rejected {
  std::string reason;  ///< stable code of the rule
  std::int64_t count = 0;
};

/// What the search did. considered = legal + sum of rejected; legal = fit + does_not_fit + pruned.
struct SearchStats {
  std::int64_t considered = 0;
  std::int64_t legal = 0;
  std::int64_t fit = 0;
  std::int64_t pruned = 0;  ///< proven worse by a bound, never evaluated
  std::vector<Rejected> rejected{};
};

/// One term in which a runner-up differs from the winner, in seconds of step time.
struct TermDelta {
  std::string term;
  Seconds delta{};
};

struct RunnerUp {
  Estimate estimate{};
  std::vector<TermDelta> against_best{};  ///< biggest first
};

struct Plan {
  Problem problem{};
  Estimate best{};
  std::vector<RunnerUp> runners_up{};
  std::vector<Estimate> front{};  ///< memory against step time, when asked for
  SearchStats search{};
  std::vector<std::string> why{};  ///< sentences: what separates the winner from its neighbours
  std::vector<Note> notes{};
};

/// Finds the best layout. Errors carry the smallest changes that would make the request feasible,
/// each computed by the same search with one input changed; code `no_layout` means exit status 1.
[[nodiscard]] Result<Plan> search(const Problem& problem);

/// The report of one layout, whether or not it fits. An illegal layout is an error, code `no_layout`.
[[nodiscard]] Result<Plan> plan_layout(const Problem& problem, const Layout& layout);

}  // namespace plan
