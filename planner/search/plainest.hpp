#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planner/search/family_search.hpp"
#include "planner/search/search.hpp"
#include "planner/search/ways.hpp"

namespace plan {

/// Search objects, one a thread.
[[nodiscard]] std::vector<FamilySearch> searches_of(const Problem& problem, bool at_risk, bool bounds,
                                                    const Extent& extent = {});

/// What a search looked into, for the choice among what it found: of each way to run the job the families that may have
/// a layout as good as the fastest.
struct Searched {
  struct Family {
    Costed family{};
    Seconds shortest{};  ///< as in Way
  };
  struct Of {
    std::shared_ptr<Way> way{};  ///< its other families are gone
    std::vector<Family> families{};
  };
  std::vector<Of> ways{};  ///< those with fewer switches on first
  bool at_risk = false, bounds = true;
  /// Of layouts that take no longer, the fastest of every family was evaluated. Others were left out only
  /// where they are slower than the fastest by more than kNear, or than kMostNear choices of degrees.
  Seconds complete{};

  /// Does a family have a layout that takes no longer than this, that fits and that a wanted framework runs? True where
  /// it is not known.
  bool may_take(const Costed& family, Seconds shortest, Seconds time) const {
    return !bounds || (time <= complete ? shortest : family.bound.any) <= time;
  }
  /// Takes the families of a way that may take this long, and lets the others go.
  void add(std::shared_ptr<Way> way, Seconds time);
};

/// The plainest of the layouts that are as good as the fastest that was found. It takes no longer than `within`,
/// however plain, unless it is the fastest. No layout with a switch on is plainer than one without.
[[nodiscard]] std::optional<Candidate> plainest(const SearchResult& found, Seconds within = Seconds::infinity());

}  // namespace plan
