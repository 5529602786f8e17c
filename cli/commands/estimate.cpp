// `plan estimate`: the same report for one layout. Tested by tests/cli/screens_test.cpp.
#include <fmt/core.h>

#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/commands/plan_report.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/progress.hpp"
#include "planner/layout_text.hpp"
#include "planner/plan.hpp"
#include "planner/pools.hpp"
#include "planner/problem/complete_layout.hpp"
#include "planner/thumb.hpp"

namespace plan {
namespace {

/// Why the layout is impossible, with the nearest one that is not: the typed axes kept if any layout has them.
Errors impossible(Problem problem, Errors errors, const Streams& streams) {
  problem.top = 1;
  const Result<Plan> found = search_with_progress(problem, streams);
  if (!found) return found.error();
  errors.front().help.push_back(fmt::format("--layout {}", layout_flag(found->best.layout)));
  return errors;
}

}  // namespace

int run_estimate(const Args& args, Streams& streams) {
  Result<Problem> problem = resolve_problem(args);
  const Result<RunOptions> run = resolve_run(args);
  Errors errors;
  if (!args.layout && args.from.empty())
    errors.push_back({"missing_flag", "`--layout` is missing", {}, {"write `--layout tp8,pp16`; `plan` finds one"}});
  if (!problem) errors.insert(errors.end(), problem.error().begin(), problem.error().end());
  if (!run) errors.insert(errors.end(), run.error().begin(), run.error().end());
  if (!errors.empty()) return report_errors(errors, streams);
  const bool pooled = !problem->pools.empty();
  Result<Plan> plan = pooled ? plan_pooled(*problem) : plan_layout(*problem, complete_layout(*problem));
  if (!plan && pooled) return report_errors(plan.error(), streams);
  if (!plan) return report_errors(impossible(*problem, plan.error(), streams), streams);
  add_launch_notes(*plan);
  if (!pooled) plan->thumbs = broken_rules_of_thumb(plan->problem, plan->best, run->tokens);
  Result<std::string> report = plan_report(args, *plan, *run, streams.out_terminal);
  if (!report) return report_errors(report.error(), streams);
  streams.out = std::move(*report);
  return plan->best.fits == Fits::Yes ? kYes : kNo;
}

}  // namespace plan
