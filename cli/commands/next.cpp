// `plan next`: which short runs would tell most about the layouts that a plan chooses among. Tested by
// tests/cli/next_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands/commands.hpp"
#include "cli/report/runs/next.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/run_files.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/progress.hpp"
#include "planner/estimate/learnt.hpp"
#include "planner/planner.hpp"
#include "planner/runs/run_problem.hpp"
#include "planner/runs/run_rates.hpp"

namespace plan {
namespace {

/// Does the run say something about this job's errors? They are shared by steps of one model on one kind of GPU.
std::string other_than(const Problem& job, const Problem& run) {
  if (run.model.name != job.model.name) return "another model";
  if (run.cluster.gpu.name != job.cluster.gpu.name) return "other GPUs";
  if (run.training.precision != job.training.precision) return "another precision";
  return {};
}

/// Takes the runs that were made into the beliefs.
void take_runs(const std::vector<Run>& runs, const Catalogue& catalogue, NextReport& report, Beliefs& beliefs) {
  for (const Run& run : runs) {
    const auto skip = [&](const std::string& why) {
      report.skipped.push_back({"run_skipped", fmt::format("run {} was left out: {}", run.id, why)});
    };
    const Result<RunProblem> built = problem_of(run, catalogue);
    if (!built) {
      skip(built.error().front().message);
      continue;
    }
    if (const std::string other = other_than(report.plan.problem, built->problem); !other.empty()) {
      skip(other);
      continue;
    }
    const std::optional<double> measured = measured_step_time(run, *built);
    if (!measured || !(*measured > 0)) {
      skip("no step time");
      continue;
    }
    Problem problem = built->problem;
    problem.cluster = report.plan.problem.cluster;
    problem.training.stack = report.plan.problem.training.stack;
    const Estimate predicted = estimate(problem, built->layout);
    const double step = predicted.step_time.value, high = step * step_interval(problem, predicted, built->guessed).high;
    if (const std::string far = far_step(*measured, step, high); !far.empty()) {
      skip(far);
      continue;
    }
    const auto same = std::find_if(report.layouts.begin(), report.layouts.end(), [&](const Estimate& layout) {
      Layout placed = layout.layout;
      placed.chunk_layers = built->layout.chunk_layers;  // a row of runs does not say where layers are
      return problem.gpus == report.plan.problem.gpus && placed == built->layout &&
             problem.training.global_batch == report.plan.problem.training.global_batch;
    });
    beliefs.observe(predicted.terms, std::log(*measured / predicted.step_time.value), kRunNoise,
                    same == report.layouts.end() ? -1 : static_cast<int>(same - report.layouts.begin()));
    report.taken.push_back(run.id);
  }
}

}  // namespace

int run_next(const Args& args, Streams& streams) {
  Result<Problem> problem = resolve_problem(args);
  if (!problem) return report_errors(problem.error(), streams);
  std::vector<Run> runs;
  if (!args.words.empty()) {
    Result<std::vector<Run>> read = read_run_files(args.words);
    if (!read) return report_errors(read.error(), streams);
    runs = std::move(*read);
  }
  const bool fixed = args.layout || !args.from.empty();
  Result<Plan> plan = fixed ? plan_layout(*problem) : search_with_progress(*problem, streams);
  if (!plan) return report_errors(plan.error(), streams);
  add_launch_notes(*plan);
  NextReport report;
  report.plan = std::move(*plan);
  report.layouts.push_back(report.plan.best);
  for (const RunnerUp& other : report.plan.runners_up) report.layouts.push_back(other.estimate);
  Beliefs beliefs(report.plan.problem, report.layouts);
  take_runs(runs, preset_catalogue(StoreOptions::from_environment()), report, beliefs);
  report.before = beliefs.of(0);
  for (std::size_t i = 1; i < report.layouts.size(); ++i)
    report.against.push_back(beliefs.between(0, static_cast<int>(i)));
  report.runs = next_runs(report.plan.problem, report.layouts, beliefs);
  streams.out = wants_json(args)            ? next_json(report)
                : args.format == "markdown" ? next_markdown(report)
                                            : next_text(report, streams.out_terminal);
  return kYes;
}

}  // namespace plan
