#pragma once

#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"

/// A job on one node whose step answers to what a test switches on or off.
namespace plan::small {

inline Problem small_job(bool experts = false) {
  Problem problem;
  problem.model = oracle::dense_model(8, 2048, 16, 16, 8192, 32000);
  problem.cluster = oracle::plain_cluster();
  problem.gpus = 8;
  problem.training.seq = 2048, problem.training.global_batch = 64;
  if (experts)
    for (Layer& kind : problem.model.kinds) {
      kind.ffn = Ffn::Moe;
      kind.moe = {.experts = 64, .top_k = 4, .expert_width = 256};
    }
  return problem;
}

inline Layout data_parallel(int zero = 1) {
  Layout layout;
  layout.dp = 8, layout.zero = zero;
  return layout;
}

inline double seconds(const Problem& problem, const Layout& layout) {
  return estimate(problem, layout).step_time.value;
}

}  // namespace plan::small
