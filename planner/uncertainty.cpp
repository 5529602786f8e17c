#include "planner/uncertainty.hpp"

namespace plan {

Interval time_interval(const Problem& problem) {
  if (problem.cluster.measured) return {0.92, 1.08};
  return problem.model.moe() ? Interval{0.84, 1.18} : Interval{0.88, 1.12};
}

Interval memory_interval(const Problem& problem) {
  // Dense predictions err by at most 0.9 % on runs outside the fit, MoE ones run 2-4.5 % low:
  // routing imbalance and static memory nobody accounts for (formulas.md D8).
  if (problem.model.moe()) return {0.98, 1.05};
  return {0.99, 1.01};
}

}  // namespace plan
