#pragma once

#include <string>

#include "cli/args.hpp"
#include "cli/report/report.hpp"
#include "formulas/result.hpp"

namespace plan {

/// A plan in the format that was asked for.
[[nodiscard]] Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run,
                                              const Terminal& terminal);

}  // namespace plan
