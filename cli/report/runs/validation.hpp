#pragma once

#include <string>

#include "cli/terminal/terminal.hpp"
#include "planner/runs/validate.hpp"

namespace plan {

/// Tables of errors by suite, for people.
[[nodiscard]] std::string validation_text(const Validation& validation, const Terminal& terminal);

/// Schema plan-validate/1, see plan-json(5).
[[nodiscard]] std::string validation_json(const Validation& validation);

/// One page without scripts: predicted against measured, log-log, every run a point with its row behind it.
[[nodiscard]] std::string validation_html(const Validation& validation);

/// One CSV line a run, in the order of the files, scored or not.
[[nodiscard]] std::string validation_rows(const Validation& validation);

}  // namespace plan
