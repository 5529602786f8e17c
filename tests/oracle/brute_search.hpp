#pragma once

#include <functional>
#include <vector>

#include "planner/search/search.hpp"

namespace plan::oracle {

/// Every choice of the axes but recomputation and layers, one by one, without a look at any rule.
void each_choice(const Problem& problem, const std::function<void(const Layout&)>& visit);

/// Every legal layout that fits, scored one by one: no bounds, no families, no divisors. Too slow to
/// ship and simple enough to trust.
/// With every choice of the switches that the problem leaves free and its framework has.
[[nodiscard]] std::vector<Candidate> brute_search(const Problem& problem, bool at_risk);

/// The job with these switches on, and none left free.
[[nodiscard]] Problem switched_by_hand(const Problem& problem, SwitchMask on);

}  // namespace plan::oracle
