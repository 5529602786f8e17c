// `plan`: search, and the answer on one screen. Tested by tests/cli/golden_test.cpp.
#include <utility>

#include <fmt/core.h>

#include "cli/commands/commands.hpp"
#include "cli/commands/plan_report.hpp"
#include "cli/report/parts/layer_note.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/progress.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/choice/advice.hpp"
#include "planner/choice/starved.hpp"
#include "planner/choice/thumb.hpp"
#include "planner/estimate/physics.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/search/memory_front.hpp"
#include "planner/stages/per_layer.hpp"

namespace plan {

namespace {

constexpr int kFrontPoints = 7;  // that a page draws where `--pareto` does not ask for all of them

/// Words of the answer that this job has none for.
Errors meaningless_answers(const Args& args, const Problem& problem) {
  Errors errors;
  if (args.advice && !problem.pools.empty())
    errors.push_back({"conflicting_flags",
                      "`--advice` has none for several kinds of GPU",
                      {},
                      {"leave `--advice` out: the answer shows each kind alone"}});
  if (args.per_layer && !problem.pools.empty())
    errors.push_back({"conflicting_flags",
                      "`--per-layer` mixes strategies on one kind of GPU, and the job has several",
                      {},
                      {"leave `--per-layer` out"}});
  if (args.per_layer && problem.objective == Objective::Memory)
    errors.push_back({"conflicting_flags",
                      "`--per-layer` finds the fastest, and `--objective memory` asks for the smallest",
                      {},
                      {"leave one of the two out"}});
  if (args.per_layer && named(problem.framework))
    errors.push_back({"conflicting_flags",
                      fmt::format("`--per-layer` gives layers of one stage strategies of their own, and {} has one for "
                                  "all of them: Galvatron alone runs such lists",
                                  framework_row(problem.framework).name),
                      {},
                      {"leave `--framework` out"}});
  return errors;
}

}  // namespace

int run_plan(const Args& args, Streams& streams) {
  Result<Problem> problem = resolve_problem(args);
  const Result<RunOptions> run = resolve_run(args);
  if (!problem || !run) {
    Errors errors = problem ? Errors{} : problem.error();
    keep_errors(errors, run);
    return report_errors(errors, streams);
  }
  if (const Errors errors = meaningless_answers(args, *problem); !errors.empty()) return report_errors(errors, streams);
  problem->more_alternatives = larger_clusters;
  Result<Plan> plan = search_with_progress(*problem, streams);
  if (!plan) return report_errors(plan.error(), streams);
  if (args.format == "html" && plan->front.empty())
    plan->front = with_point(memory_front(plan->problem, kFrontPoints), plan->best);
  add_launch_notes(*plan);
  if (plan->best.runs.empty()) plan->thumbs = broken_rules_of_thumb(plan->problem, plan->best, run->tokens);
  plan->starved = starved(*problem, *plan);
  if (args.advice) plan->advice = advice(*problem, *plan);
  if (args.per_layer) {
    plan->per_layer = per_layer(*plan);
    if (plan->per_layer->best)
      if (const std::optional<Error> error = beyond_physics(plan->problem, *plan->per_layer->best))
        return report_errors({*error}, streams);
    plan->notes.push_back(per_layer_note(*plan, *plan->per_layer));
  }
  Result<std::string> report = plan_report(args, *plan, *run, streams.out_terminal);
  if (!report) return report_errors(report.error(), streams);
  streams.out = std::move(*report);
  const bool accepted = plan->best.fits == Fits::AtRisk && problem->headroom.accept_risk;
  return plan->best.fits == Fits::Yes || accepted ? kYes : kNo;
}

}  // namespace plan
