// From --format to the writer of a plan. Tested by tests/cli/walk_test.cpp.
#include "cli/commands/plan_report.hpp"

#include <fmt/core.h>

#include "cli/report/page/timeline.hpp"
#include "cli/report/parts/choice_text.hpp"
#include "cli/report/plan/trace.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/unstated.hpp"
#include "planner/estimate/replay.hpp"

namespace plan {

namespace {

std::string first_lines(const Plan& plan, int width) {
  std::string out;
  for (const std::string& line : warning_lines(plan)) out += wrap(line, width, 2) + "\n";
  return out;
}

}  // namespace

std::string job_lines(const Plan& plan, const Terminal& terminal) {
  std::string out = first_lines(plan, terminal.width) + wrap(job_text(plan.problem.inputs), terminal.width, 2) + "\n";
  return out + dim_lines(unstated_lines(plan.problem), terminal);
}

Result<std::string> plan_report(const Args& args, const Plan& plan, const RunOptions& run, const Terminal& terminal) {
  if (wants_json(args)) return json_report(plan, run);
  if (!plan.best.runs.empty() && (args.timeline || args.format.value_or("human") != "human"))
    return fail({"conflicting_flags",
                 "a report on several kinds of GPU is for the screen or in JSON",
                 {},
                 {"leave `--format` and `--timeline` out, or write `--json`"}});
  if (args.format == "html") return html_report(plan, run);
  constexpr int kUnwrapped = 1000;
  const std::string first = first_lines(plan, args.format == "markdown" ? kUnwrapped : terminal.width);
  if (args.format == "markdown") return first + (first.empty() ? "" : "\n") + markdown_report(plan, run);
  if (args.format == "csv") return csv_report(plan, run);
  if (args.format != "trace" && !args.timeline) return first + human_report(plan, run, terminal);
  const Result<StepReplay> step = replay(plan);
  if (!step) return fail(step.error());
  if (args.format == "trace") return trace_report(plan, *step);
  return first + human_report(plan, run, terminal) + "\n" + timeline_text(*step, terminal);
}

}  // namespace plan
