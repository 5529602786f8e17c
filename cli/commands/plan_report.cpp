// From --format to the writer of a plan. Tested by tests/cli/walk_test.cpp.
#include "cli/commands/plan_report.hpp"

#include <fmt/core.h>

#include "cli/report/timeline.hpp"
#include "cli/report/trace.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/format.hpp"
#include "planner/replay.hpp"

namespace plan {

std::string first_lines(const Plan& plan) {
  std::string lines;
  const Estimate& best = plan.best;
  if (best.fits == Fits::AtRisk)
    lines += fmt::format("AT RISK: not certain to fit, the peak is {} to {} of {} GiB\n", gib(best.peak_low),
                         gib(best.peak_high), gib(best.capacity));
  for (const Input& input : plan.problem.inputs)
    if (input.key == "precision" && input.origin == Origin::Default && !input.where.empty())
      lines += fmt::format("precision {}: nobody stated one, and {}\n", input.value, input.where);
  return lines;
}

Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run, const Terminal& terminal) {
  if (wants_json(args)) return json_report(plan, run);
  if (args.format == "html") return html_report(plan, run);
  const std::string first = first_lines(plan);
  if (args.format == "markdown") return first + (first.empty() ? "" : "\n") + markdown_report(plan, run);
  if (args.format == "csv") return csv_report(plan, run);
  if (args.format != "trace" && !args.timeline) return first + human_report(plan, run, terminal);
  const Result<StepReplay> step = replay(plan);
  if (!step) return fail(step.error());
  if (args.format == "trace") return trace_report(plan, *step);
  return first + human_report(plan, run, terminal) + "\n" + timeline_text(*step, terminal);
}

}  // namespace plan
