#pragma once

#include <optional>
#include <span>
#include <string>

#include "planner/answer/estimate.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/problem/problem.hpp"

/// What a cluster's own runs say of how far a step may lie from its prediction, and for which jobs.
namespace plan {

/// A job that ran, as it is predicted.
struct RanJob {
  const Problem* problem = nullptr;
  const Layout* layout = nullptr;
};

/// The interval `unseen` with what the runs had in common: ranges of their numbers, and their traits.
[[nodiscard]] LearntSteps learnt_from(std::span<const RanJob> runs, const Interval& unseen);

/// What of a job none of those runs had, in words; nothing where all of it ran. `learnt` must hold runs.
[[nodiscard]] std::optional<std::string> never_ran(const LearntSteps& learnt, const Problem& problem,
                                                   const Layout& layout);

/// 90 % interval of a step as factors on its prediction: the one learnt where the cluster's runs cover the job, else
/// the one of published runs (time_interval).
[[nodiscard]] Interval step_interval(const Problem& problem, const Estimate& estimate, bool guessed = false);

}  // namespace plan
