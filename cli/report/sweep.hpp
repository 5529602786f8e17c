#pragma once

#include <string>

#include "cli/sweep.hpp"
#include "cli/terminal.hpp"

namespace plan {

[[nodiscard]] std::string sweep_text(const Sweep& sweep, const Terminal& terminal);
[[nodiscard]] std::string sweep_csv(const Sweep& sweep);
[[nodiscard]] std::string sweep_html(const Sweep& sweep);
[[nodiscard]] std::string sweep_markdown(const Sweep& sweep);
/// Schema plan-sweep/1; every key is in man/plan-json.5.
[[nodiscard]] std::string sweep_json(const Sweep& sweep);

}  // namespace plan
