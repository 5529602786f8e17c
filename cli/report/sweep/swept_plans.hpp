#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/request/flags/sweep_axes.hpp"
#include "cli/request/run_cost.hpp"

namespace plan {

/// A point with its own best layout, or why there is none.
struct SweptPlan {
  std::vector<std::size_t> at{};
  std::vector<Input> inputs{};  ///< what was asked there
  std::optional<Plan> plan{};
  Errors errors{};
  std::optional<RunCost> run{};  ///< with --tokens
  bool pareto = false;           ///< no other point is at least as good in step time, memory, GPUs and cost
};

/// A neighbouring pair of points between which the best layout changes its degrees.
struct LayoutChange {
  std::size_t from = 0, to = 0;  ///< indices into points
  std::string text{};
};

/// What losing nodes costs: with the best layout of what is left, and with the one that ran, less a replica or more.
struct Loss {
  std::size_t whole = 0, point = 0;  ///< indices into points
  int nodes = 0;
  double slower = 0;                   ///< tokens/s lost, as a share of the whole job's; of its own best layout
  std::optional<Estimate> replicas{};  ///< the whole job's layout with fewer replicas, its batch smaller by as many
  std::int64_t replicas_batch = 0;
  double replicas_slower = 0;
};

/// The fewest GPUs that make a deadline.
struct Deadline {
  double days = 0;
  double tokens = 0;
  std::optional<SweptPlan> fewest{};
  std::optional<SweptPlan> next_fewer{};  ///< the largest number tried that takes longer
  int tried = 0;
};

struct PlanSweep {
  std::vector<SweepAxis> axes{};
  std::vector<SweptPlan> points{};
  std::vector<LayoutChange> changes{};
  std::vector<std::string> sensitivity{};
  std::optional<Deadline> deadline{};
  std::vector<Loss> losses{};
  double price = 0;  ///< USD per GPU-hour if one was typed; 0: each GPU's own
  int spares = 0;    ///< GPUs held back at every point
};

/// GPUs of a point that are paid for.
[[nodiscard]] inline int paid_gpus(const PlanSweep& sweep, const Plan& plan) {
  return plan.problem.gpus + sweep.spares;
}

/// USD per GPU-hour at a point; 0 if unknown.
[[nodiscard]] inline double price_of(const PlanSweep& sweep, const Plan& plan) {
  return sweep.price > 0 ? sweep.price : plan.problem.cluster.gpu.price_per_hour;
}

}  // namespace plan
