#pragma once

#include <vector>

#include "planner/answer/estimate.hpp"

namespace plan {

/// One term with the word that the table uses for it.
struct NamedTerm {
  const char* name;
  Seconds time;
  const char* word = "";  ///< of `plan explain`
};
/// In the order of the JSON.
[[nodiscard]] std::vector<NamedTerm> named_terms(const Terms& terms);

}  // namespace plan
