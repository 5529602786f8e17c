#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "planner/cost/cost.hpp"
#include "planner/problem/problem.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/family_search.hpp"

namespace plan {

/// Threads that a search of the problem takes.
[[nodiscard]] unsigned thread_count(const Problem& problem);

/// A split's costs, and what of them bounds its families.
struct Priced {
  std::optional<CostModel> costs{};
  std::optional<SplitWork> work{};
};

/// The job as it stands or with some of the switches on that it leaves free, and its families with what they cost.
struct Way {
  explicit Way(Problem job) : problem(std::move(job)) {}
  Problem problem;
  std::map<Split, Priced> splits{};
  std::vector<Costed> families{};
  /// By family: what none of its layouts that fit and that a wanted framework runs is below, as the search found;
  /// infinity of families that it did not look into.
  std::vector<Seconds> shortest{};
};

/// Memory beyond which nothing is priced.
[[nodiscard]] RealBytes most_memory(const Problem& problem, bool bounds);

/// Prices every split of which something may fit into `capacity`, and puts the families in the order of their bounds:
/// of what is best. Those that are surely slower than `slowest` come behind, in no order, and last those of
/// which nothing fits.
[[nodiscard]] std::vector<Costed> cost_families(const Problem& problem, std::vector<Family> families,
                                                RealBytes capacity, Seconds slowest, std::map<Split, Priced>& splits);

/// An order of families in which those with the same degrees, which share most, are neighbours.
[[nodiscard]] std::vector<std::size_t> together(std::span<const Costed> families);

/// Choices of the switches that a job leaves free, fewer of them first.
[[nodiscard]] std::vector<SwitchMask> switch_choices(const Problem& problem);

/// The job with some switches on, and of its families those whose layouts may take at most `slowest`. Graphs
/// shorten a pass by what the GPU waits for launches at most, and a step by no larger share of it than its passes;
/// their pools take memory.
[[nodiscard]] std::shared_ptr<Way> switched(const Way& base, SwitchMask on, Seconds slowest, bool bounds);

}  // namespace plan
