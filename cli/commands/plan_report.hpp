#pragma once

#include <string>

#include "cli/report/report.hpp"
#include "cli/request/args.hpp"
#include "formulas/result.hpp"

namespace plan {

/// What must not be overlooked: that the answer is not certain to fit, a number format that nobody chose. Empty if
/// there is nothing of the kind.
[[nodiscard]] std::string first_lines(const Plan& plan);

/// A plan in the format that was asked for.
[[nodiscard]] Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run,
                                              const Terminal& terminal);

}  // namespace plan
