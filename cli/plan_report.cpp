// From --format to the writer of a plan. Tested by tests/cli/walk_test.cpp.
#include "cli/plan_report.hpp"

#include "cli/resolve.hpp"

namespace plan {

Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run, const Terminal& terminal) {
  if (wants_json(args)) return json_report(plan, run);
  if (args.format == "html") return html_report(plan, run);
  return human_report(plan, run, terminal);
}

}  // namespace plan
