// `plan estimate`: the same report for one layout. Tested by tests/cli/golden_test.cpp.
#include "cli/commands.hpp"
#include "cli/complete_layout.hpp"
#include "cli/diagnostic.hpp"
#include "cli/report/report.hpp"
#include "cli/resolve.hpp"
#include "planner/plan.hpp"

namespace plan {

int run_estimate(const Args& args, Streams& streams) {
  Result<Problem> problem = resolve_problem(args);
  const Result<RunOptions> run = resolve_run(args);
  Errors errors;
  if (!args.layout)
    errors.push_back({"missing_flag", "`--layout` is missing", {}, {"write `--layout tp8,pp16`; `plan` finds one"}});
  if (!problem) errors.insert(errors.end(), problem.error().begin(), problem.error().end());
  if (!run) errors.insert(errors.end(), run.error().begin(), run.error().end());
  if (!errors.empty()) return report_errors(errors, streams);
  const Result<Plan> plan = plan_layout(*problem, complete_layout(*problem));
  if (!plan) return report_errors(plan.error(), streams);
  streams.out = wants_json(args) ? json_report(*plan, *run) : human_report(*plan, *run, streams.out_terminal);
  return plan->best.fits == Fits::No ? kNo : kYes;
}

}  // namespace plan
