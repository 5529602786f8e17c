#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

class JsonFields;
struct JsonSource;

/// What an earlier `plan --json` or `plan estimate --json` says (schema plan/1): all that a comparison needs.
struct EarlierPlan {
  std::string file{};     ///< as it was named
  std::string version{};  ///< of the `plan` that wrote it
  std::vector<Input> inputs{};
  std::string model{};
  std::int64_t parameters = 0, active_parameters = 0;
  /// The best layout with its times, terms, memory and communication. Layers are in `stage_layers`, not in the
  /// layout; StageMemory::reserve is not written and reads as 0.
  Estimate best{};
};

/// Strict: every key of schema plan/1 that is asked for must be there and make sense; all mistakes at once. Another
/// schema is an error of its own, code `wrong_schema`. Keys that are not known may have been added since and are left.
[[nodiscard]] Result<EarlierPlan> read_plan_json(std::string text, std::string file);

/// A plan inside another report, read in the same way.
[[nodiscard]] EarlierPlan read_plan_fields(const JsonFields& root);

/// Whether `root` says that it is `schema`; an error that names both if not.
[[nodiscard]] Result<bool> check_schema(const JsonSource& source, std::string_view schema);

}  // namespace plan
