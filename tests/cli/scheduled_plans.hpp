#pragma once

#include <vector>

#include "formulas/names.hpp"
#include "planner/planner.hpp"
#include "presets/store.hpp"

namespace plan::scheduled {

inline Problem problem_of(const char* model, int gpus, std::int64_t batch) {
  Problem problem;
  problem.model = load_model(model, StoreOptions{}).value().value;
  problem.cluster = load_cluster("dgx-h100", StoreOptions{}).value().value;
  problem.training.seq = 4096;
  problem.training.global_batch = batch;
  problem.gpus = gpus;
  return problem;
}

struct Case {
  const char* model;
  Layout layout;
};

/// Every schedule on a dense and a sparse model, 16 micro-batches; 126 layers on 4 stages are uneven.
inline std::vector<Case> cases() {
  std::vector<Case> out;
  for (const char* model : {"405b", "mixtral-8x7b"})
    for (int k = 0; k < kSchedules; ++k) {
      const auto schedule = static_cast<Schedule>(k);
      const bool chunks = v_shaped(schedule) || schedule == Schedule::Interleaved || schedule == Schedule::BreadthFirst;
      Layout layout{.tp = 8, .pp = 4, .vp = chunks ? 2 : 1, .dp = 4, .schedule = schedule, .sequence_parallel = true};
      if (model[0] == 'm') layout.ep = 4;
      out.push_back({model, layout});
    }
  return out;
}

inline Plan plan_of(const char* model, const Layout& layout, std::int64_t batch = 64) {
  return plan_layout(problem_of(model, layout.world(), batch), layout).value();
}

}  // namespace plan::scheduled
