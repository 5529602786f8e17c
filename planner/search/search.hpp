#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "planner/answer/plan.hpp"
#include "planner/search/ranking.hpp"

namespace plan {

/// What a search keeps of the layouts that it meets.
struct Kept {
  Ranking ranking;  ///< of layouts that a wanted framework runs, one an idea
  Ranking paper;    ///< the first of all layouts, whether or not anything runs them
  Ranking near;     ///< as `ranking`, one a choice of degrees, while it is near the first
  Front front{};    ///< of layouts that a wanted framework runs
  explicit Kept(const Problem& problem);
  void offer(const Problem& problem, const Candidate& candidate);
  void merge(const Kept& other);
};

struct Searched;

/// What a search found, before the reports are filled in.
struct SearchResult {
  Ranking ranking{Objective::StepTime, 1};  ///< the first is the fastest that a wanted framework runs
  Ranking paper{Objective::StepTime, 1};    ///< the fastest of all, whether or not anything runs it; none beside none
  std::vector<Candidate> near{};            ///< layouts that may be as fast as the first, itself among them
  std::vector<Terms> near_terms{};          ///< of their steps
  std::optional<Candidate> recommended{};   ///< the plainest of those that are as good as the first
  std::shared_ptr<const Searched> searched{};  ///< what it was chosen of; plainest() chooses again
  Front front{};
  SearchStats stats{};
  bool at_risk = false;     ///< nothing fits for certain; these fit if the prediction is right
  bool slower = false;      ///< nothing is as fast as was asked for, and one of the smallest families fits for certain
  bool none_run = false;    ///< no wanted framework runs any layout, whatever it takes
  std::int64_t judged = 0;  ///< families that were looked into
};

/// Layouts this much slower than the fastest, as a share of its step, may turn out to be the fastest: they are kept.
inline constexpr double kNear = 0.05;
/// At most so many layouts that near are kept, the fastest first.
inline constexpr int kMostNear = 256;

/// How much of an answer is asked for: less takes less time.
struct Extent {
  /// After so many families the search gives up with what it has, the same on every machine: for suggestions, which are
  /// not worth any time, nor a recommendation.
  std::int64_t families = std::numeric_limits<std::int64_t>::max();
  /// The first of the ranking alone: no neighbours of it, no recommendation, nothing that no framework runs; what the
  /// search did not have to look at is not counted.
  bool best_alone = false;
  /// With `best_alone` only a layout that is no slower, and fits for certain, is looked for.
  Seconds slowest = Seconds::infinity();
  /// Only what fits for certain: what may fit is no answer.
  bool certain = false;
  /// Where no layout is found, families of which nothing can fit are not counted: for who asks another question then.
  bool if_any = false;
  /// It is known that nothing fits for certain.
  bool none_certain = false;
};

/// Runs the search.
[[nodiscard]] SearchResult find_layouts(const Problem& problem, const Extent& extent);
/// All of it. `bounds` off evaluates everything: the same answer, slowly (for tests).
[[nodiscard]] SearchResult find_layouts(const Problem& problem, bool bounds = true);

/// Does any layout that a wanted framework runs fit for certain, however slow?
[[nodiscard]] bool anything_fits(const Problem& problem);

/// Capacity that a predicted peak must not exceed, so that its interval fits (or, at risk, may fit); where the user
/// says how much has to stay free, what is left.
[[nodiscard]] RealBytes usable_memory(const Problem& problem, bool at_risk);

}  // namespace plan
