#pragma once

#include <string>

#include "cli/report/report.hpp"
#include "cli/request/args.hpp"
#include "formulas/result.hpp"

namespace plan {

/// A plan in the format that was asked for.
[[nodiscard]] Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run,
                                              const Terminal& terminal);

}  // namespace plan
