#pragma once

#include <string>

#include "cli/request/run_cost.hpp"
#include "cli/request/sweep_axes.hpp"
#include "cli/terminal/terminal.hpp"

namespace plan {

/// A point with its own best layout, or why there is none.
struct SweptPlan {
  std::vector<std::size_t> at{};
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
  double price = 0;  ///< USD per GPU-hour if one was typed; 0: each GPU's own
};

/// USD per GPU-hour at a point; 0 if unknown.
[[nodiscard]] double price_of(const PlanSweep& sweep, const Plan& plan);

[[nodiscard]] std::string sweep_text(const PlanSweep& sweep, const Terminal& terminal);
[[nodiscard]] std::string sweep_csv(const PlanSweep& sweep);
[[nodiscard]] std::string sweep_html(const PlanSweep& sweep);
[[nodiscard]] std::string sweep_markdown(const PlanSweep& sweep);
/// Schema plan-sweep/1; every key is in man/plan-json.5.
[[nodiscard]] std::string sweep_json(const PlanSweep& sweep);

}  // namespace plan
