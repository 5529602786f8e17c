// Nodes that a token's experts lie on (plan-formulas(7) E6). Assumes routing that is uniform and experts that are
// spread evenly. Tested by tests/formulas/textbook_traffic_test.cpp.
#include "formulas/communication.hpp"

namespace plan {

double distinct_nodes(std::int64_t experts, std::int64_t top_k, int nodes) {
  // C(E - E/G, k) / C(E, k) as a product, so that no binomial overflows.
  const double outside = static_cast<double>(experts) - static_cast<double>(experts) / nodes;
  double none = 1;
  for (std::int64_t i = 0; i < top_k; ++i) {
    const double rest = outside - static_cast<double>(i);
    if (rest <= 0) return nodes;
    none *= rest / static_cast<double>(experts - i);
  }
  return nodes * (1 - none);
}

}  // namespace plan
