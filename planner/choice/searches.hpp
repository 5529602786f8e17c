#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "planner/problem/problem.hpp"
#include "planner/search/search.hpp"

namespace plan {

/// Does the search's best layout fit the GPUs for certain?
[[nodiscard]] bool answers_for_certain(const SearchResult& result);

/// Searches for jobs that differ in their number of GPUs, in their framework and in the switches that they leave free,
/// and in nothing else. What the fastest layout of one is, is searched for once, whoever asks and however fast it has
/// to be.
class Searches {
 public:
  /// find_layouts(). Of what is known already nothing is counted as looked into.
  [[nodiscard]] SearchResult find(const Problem& problem, const Extent& extent);

 private:
  /// What is known of the fastest layout of a job.
  struct Known {
    int gpus = 0;
    Framework framework = Framework::Any;
    SwitchMask free_switches = 0;
    SearchResult found{};  ///< of the last search
    /// Where that found nothing for certain: so fast nothing is that fits for certain.
    Seconds none_up_to{-1};
    bool knows_risk = false;  ///< then it says, too, whether anything may fit
  };

  Known& known(const Problem& problem);

  std::vector<Known> known_{};
};

}  // namespace plan
