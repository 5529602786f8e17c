#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal.hpp"
#include "hwprobe/session/check.hpp"

namespace plan {

/// `plan probe --check`: what software the ranks would load, a line a rank, and what would go wrong.
[[nodiscard]] std::string check_text(const std::vector<CheckedRank>& ranks, const std::vector<CheckFinding>& findings,
                                     const Terminal& terminal);
[[nodiscard]] std::string check_json(const std::vector<CheckedRank>& ranks, const std::vector<CheckFinding>& findings);

/// Whether a probe of these ranks would measure: nothing stops it.
[[nodiscard]] bool would_measure(const std::vector<CheckFinding>& findings);

}  // namespace plan
