#pragma once

#include <random>

#include "oracle/random_problem.hpp"
#include "planner/search/search.hpp"

namespace plan {

inline Seconds fastest(const SearchResult& result) {
  return result.ranking.best().empty() ? Seconds() : result.ranking.best().front().score.step_time;
}

inline Problem on(Problem problem, int gpus) {
  problem.gpus = gpus;
  return problem;
}

/// A job whose layers, batch and sequence divide badly often, all axes free.
inline Problem free_problem(std::mt19937& random) {
  Problem problem = oracle::random_problem(random, 16);
  problem.fixed = {};
  problem.objective = Objective::StepTime, problem.framework = Framework::Megatron;
  problem.cluster.gpu.memory = round_bytes(79.6 * kGiB);
  problem.top = 1;
  return problem;
}

}  // namespace plan
