#pragma once

#include <string>
#include <vector>

#include "planner/answer/plan.hpp"

namespace plan {

/// Terms of `other` minus those of `best`, biggest difference first, differences under 1 ms left out.
[[nodiscard]] std::vector<TermDelta> against(const Estimate& best, const Estimate& other);

/// What happens one step away from the best layout, one axis at a time: "pp 8 instead of 16 needs
/// 92.1 GiB". At most `most` sentences, the most telling first.
[[nodiscard]] std::vector<std::string> why(const Problem& problem, const Estimate& best, std::size_t most = 3);

}  // namespace plan
