// From --format to the writer of a plan. Tested by tests/cli/walk_test.cpp.
#include "cli/commands/plan_report.hpp"

#include "cli/report/timeline.hpp"
#include "cli/report/trace.hpp"
#include "cli/request/resolve.hpp"
#include "planner/replay.hpp"

namespace plan {

Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run, const Terminal& terminal) {
  if (wants_json(args)) return json_report(plan, run);
  if (args.format == "html") return html_report(plan, run);
  if (args.format == "markdown") return markdown_report(plan, run);
  if (args.format == "csv") return csv_report(plan, run);
  if (args.format != "trace" && !args.timeline) return human_report(plan, run, terminal);
  const Result<StepReplay> step = replay(plan);
  if (!step) return fail(step.error());
  if (args.format == "trace") return trace_report(plan, *step);
  return human_report(plan, run, terminal) + "\n" + timeline_text(*step, terminal);
}

}  // namespace plan
