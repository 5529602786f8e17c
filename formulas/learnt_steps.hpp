#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plan {

/// A number of a job, and the least and the most that it had among the runs something was learnt from.
struct LearntRange {
  std::string name{};  ///< "gpus", "seq", "tp"
  std::int64_t least = 0, most = 0;
  bool operator==(const LearntRange&) const = default;
};

/// How far steps of a cluster lie from their prediction with its calibration: nine in ten lie between `low` and `high`
/// times it. Learnt from runs that were predicted from the others, and true of jobs like those runs alone: each of the
/// job's traits was one run's at least, each of its numbers lies within what ran. See planner/estimate/learnt.hpp.
struct LearntSteps {
  int runs = 0;  ///< 0: nothing was learnt
  double low = 1, high = 1;
  std::vector<LearntRange> ranges{};
  std::vector<std::string> traits{};  ///< "model llama3-8b", "precision bf16", in alphabetical order
  bool operator==(const LearntSteps&) const = default;
};

}  // namespace plan
