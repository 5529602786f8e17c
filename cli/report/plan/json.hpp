#pragma once

#include <string>

#include "cli/report/plan/report.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/json_text.hpp"
#include "planner/answer/plan.hpp"

namespace plan {

[[nodiscard]] Json layout_json(const Estimate& estimate);
[[nodiscard]] Json estimate_json(const Estimate& estimate);
[[nodiscard]] Json difference_json(const Difference& difference);
/// The whole report, schema plan/1.
[[nodiscard]] Json plan_json(const Plan& plan, const RunOptions& options);
[[nodiscard]] Json inputs_json(const std::vector<Input>& inputs);
/// What nobody stated: `[{field, value, origin, guessed}]`.
[[nodiscard]] Json unstated_json(const std::vector<Unstated>& facts);
[[nodiscard]] Json unstated_json(const std::vector<Input>& inputs);
/// What files state and is not used: `[{code, text}]`; the form of every list of notes.
[[nodiscard]] Json notes_json(const std::vector<Note>& notes);

}  // namespace plan
