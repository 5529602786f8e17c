#pragma once

#include <span>
#include <string_view>

#include "cli/explain/explanation.hpp"
#include "formulas/result.hpp"
#include "planner/answer/plan.hpp"

namespace plan {

/// A term of the report that can be followed down to its symbols.
struct Term {
  std::string_view name;
  std::string_view help;
  Result<Explanation> (*explain)(const Plan& plan, int stage);
};

/// `plan list terms`.
[[nodiscard]] std::span<const Term> terms();

/// Explains one term of `plan.best`. The value is the one that the report prints.
[[nodiscard]] Result<Explanation> explain(const Plan& plan, std::string_view term, int stage);

}  // namespace plan
