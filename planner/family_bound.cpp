// A bound from below on the step time of all layouts of a family, without placing layers.
// Tested by tests/planner/properties_test.cpp.
#include <algorithm>

#include "planner/family_search.hpp"

namespace plan {
namespace {

/// Seconds of one micro-batch: no recomputation, expert exchange hidden wherever some schedule could hide it.
double least_work(const LayerCost& cost) {
  const Phase work = cost.forward + cost.backward_input + cost.backward_weight;
  return work.total() - work.ep + std::min(work.ep, cost.paired_ep);
}

}  // namespace

double least_family_time(const Problem& problem, const CostModel& costs, const Layout& family) {
  double sum = least_work(costs.embedding()) + least_work(costs.head());
  double cheapest = least_work(costs.layer(problem.model.layers.empty() ? 0 : problem.model.layers.front()));
  for (const int kind : problem.model.layers) {
    const double work = least_work(costs.layer(kind));
    sum += work, cheapest = std::min(cheapest, work);
  }
  const double m = static_cast<double>(micro_batches(problem.training.global_batch, family.dp, family.micro_batch));
  // Layers do not divide: a rank of half-stages (DualPipe) holds at least this many halves.
  const int halves = (2 * problem.model.depth() + family.pp - 1) / family.pp;
  const double busy = m * std::max(sum / family.pp, 0.5 * halves * cheapest);
  const double straggler = 1 + problem.cluster.calibration.jitter * slowest_of(family.world());
  // A shade below, so that rounding never puts the bound above the value it bounds.
  return 0.999999 * straggler * busy;
}

}  // namespace plan
