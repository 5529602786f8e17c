#pragma once

#include <string>

#include "cli/report/plan/report.hpp"
#include "cli/request/table/args.hpp"
#include "formulas/result.hpp"

namespace plan {

/// The first lines of an answer that is no report: what must not be overlooked (not certain to fit, a number format
/// that nobody chose), the job, what nobody stated of it.
[[nodiscard]] std::string job_lines(const Plan& plan, const Terminal& terminal);

/// A plan in the format that was asked for.
[[nodiscard]] Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run,
                                              const Terminal& terminal);

}  // namespace plan
