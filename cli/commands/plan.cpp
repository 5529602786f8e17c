// `plan`: search, and the answer on one screen. Tested by tests/cli/golden_test.cpp.
#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/commands/plan_report.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/progress.hpp"
#include "planner/advice.hpp"
#include "planner/memory_front.hpp"
#include "planner/starved.hpp"
#include "planner/thumb.hpp"

namespace plan {

namespace {

constexpr int kFrontPoints = 7;  // that a page draws where `--pareto` does not ask for all of them

}  // namespace

int run_plan(const Args& args, Streams& streams) {
  Result<Problem> problem = resolve_problem(args);
  const Result<RunOptions> run = resolve_run(args);
  if (!problem || !run) {
    Errors errors = problem ? Errors{} : problem.error();
    if (!run) errors.insert(errors.end(), run.error().begin(), run.error().end());
    return report_errors(errors, streams);
  }
  if (args.advice && !problem->pools.empty())
    return report_errors({{"conflicting_flags",
                           "`--advice` has none for several kinds of GPU",
                           {},
                           {"leave `--advice` out: each kind alone stands beside the answer"}}},
                         streams);
  problem->more_alternatives = larger_clusters;
  Result<Plan> plan = search_with_progress(*problem, streams);
  if (!plan) return report_errors(plan.error(), streams);
  if (args.format == "html" && plan->front.empty()) plan->front = memory_front(plan->problem, kFrontPoints);
  add_launch_notes(*plan);
  if (plan->best.runs.empty()) plan->thumbs = broken_rules_of_thumb(plan->problem, plan->best, run->tokens);
  plan->starved = starved(*problem, *plan);
  if (args.advice) plan->advice = advice(*problem, *plan);
  Result<std::string> report = plan_report(args, *plan, *run, streams.out_terminal);
  if (!report) return report_errors(report.error(), streams);
  streams.out = std::move(*report);
  const bool accepted = plan->best.fits == Fits::AtRisk && problem->headroom.accept_risk;
  return plan->best.fits == Fits::Yes || accepted ? kYes : kNo;
}

}  // namespace plan
