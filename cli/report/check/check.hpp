#pragma once

#include <string>

#include "cli/check/check.hpp"
#include "cli/terminal/terminal.hpp"

namespace plan {

/// Each limit on a line, then what failed, why, and what would keep every limit.
[[nodiscard]] std::string check_human(const CheckReport& report, const Terminal& terminal);
/// `"schema": "plan-check/1"`; every key is in man/plan-check.1.
[[nodiscard]] std::string check_json(const CheckReport& report);
/// Workflow commands of GitHub Actions: one annotation for each limit that is broken, failures first.
[[nodiscard]] std::string check_github(const CheckReport& report);
/// For a step summary or a comment on a pull request.
[[nodiscard]] std::string check_markdown(const CheckReport& report);
/// One page for a design review: each job's limits as bars against its budget, what is broken and what would mend it.
[[nodiscard]] std::string check_html(const CheckReport& report);
/// JUnit XML: a suite for each job, a case for each limit.
[[nodiscard]] std::string check_junit(const CheckReport& report);
/// SARIF 2.1.0: a result for each limit that is broken.
[[nodiscard]] std::string check_sarif(const CheckReport& report);

}  // namespace plan
