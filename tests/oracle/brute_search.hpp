#pragma once

#include <vector>

#include "planner/search.hpp"

namespace plan::oracle {

/// Every legal layout that fits, scored one by one: no bounds, no families, no divisors. Too slow to
/// ship and simple enough to trust.
[[nodiscard]] std::vector<Candidate> brute_search(const Problem& problem, bool at_risk);

}  // namespace plan::oracle
