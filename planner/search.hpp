#pragma once

#include <cstdint>
#include <limits>

#include "planner/plan.hpp"
#include "planner/ranking.hpp"

namespace plan {

/// What a search found, before the reports are filled in.
struct SearchResult {
  Ranking ranking{Objective::StepTime, 1};
  Front front{};
  SearchStats stats{};
  bool at_risk = false;     ///< nothing fits for certain; these fit if the prediction is right
  std::int64_t judged = 0;  ///< families that were looked into
};

/// Runs the search. `bounds` off evaluates everything: the same answer, slowly (for tests). After `most` families it
/// gives up with what it has, the same on every machine: for suggestions, which are not worth any time.
[[nodiscard]] SearchResult find_layouts(const Problem& problem, bool bounds = true,
                                        std::int64_t most = std::numeric_limits<std::int64_t>::max());

/// Capacity that a predicted peak must not exceed, so that its interval fits (or, at risk, may fit).
[[nodiscard]] double usable_memory(const Problem& problem, bool at_risk);

}  // namespace plan
