// `plan diagnose`: a run that was measured beside what was predicted for it. Tested by tests/cli/diagnose_test.cpp and
// tests/golden/diagnose*.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands/commands.hpp"
#include "cli/commands/diagnose.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/launch/megatron/log.hpp"
#include "cli/logs/job_logs.hpp"
#include "cli/report/runs/diagnosis.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/run_files.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/format.hpp"
#include "planner/planner.hpp"
#include "planner/runs/run_write.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// A log that prints its job's arguments says by itself which job it is of.
Args with_job_of_log(Args args) {
  if (!args.layout && args.from.empty())
    for (const std::string& log : args.log)
      if (printed_arguments(log)) {
        args.from = {log};
        break;
      }
  return args;
}

/// Flags that do not go together, or are missing.
Errors mistaken_flags(const Args& args) {
  Errors errors;
  if (args.log.empty() && args.trace.empty() && args.snapshot.empty())
    errors.push_back({"missing_flag",
                      "`plan diagnose` needs what was measured",
                      {},
                      {"write `--log out.log` or `--trace trace.json`"}});
  if (!args.follow && (args.duration || args.every))
    errors.push_back({"missing_flag", "`--for` and `--every` go with `--follow`", {}, {"add `--follow`"}});
  if (args.follow && args.log.size() > 1)
    errors.push_back({"conflicting_flags",
                      fmt::format("`--follow` reads one log, and {} are given", args.log.size()),
                      {},
                      {"name the log of one rank with `--log`"}});
  if (args.follow && args.append)
    errors.push_back({"conflicting_flags",
                      "`--append` adds a run that is over, and `--follow` reads one that is not",
                      {},
                      {"run `plan diagnose --append` when the job has ended"}});
  return errors;
}

/// What keeps the layout from being known.
std::optional<Error> no_layout(const Args& args) {
  if (args.layout || !args.from.empty()) return std::nullopt;
  return Error{"missing_flag",
               "nothing says which layout ran",
               args.log.empty() ? std::vector<std::string>{}
                                : std::vector<std::string>{"no log prints its job's arguments, as Megatron-LM's do"},
               {"write `--from train.sbatch`, or `--model`, `--gpus` and `--layout tp8,pp16`"}};
}

/// --append: what was measured as a row of plan-runs(5), below those that the file holds.
Result<void> append_run(const Args& args, const DiagnosisReport& report) {
  MeasuredFigures figures;
  const std::string source = !args.log.empty() ? args.log.front() : !args.trace.empty() ? args.trace.front() : "";
  const std::filesystem::path file(source);
  figures.id = file.stem().string(), figures.source = file.filename().string(), figures.suite = "own";
  figures.step_time_s = report.measured.seconds[0].value_or(0);
  if (!report.memory.empty()) {
    figures.peak_memory_gib = report.memory.front().measured.value / kGiB;
    figures.memory_kind = report.memory.front().kind;
  }
  if (!report.traces.empty())
    for (std::size_t i = 1; i < kObservableNames.size(); ++i)
      figures.parts.emplace_back(kObservableNames[i], report.measured.seconds[i].value_or(0));
  if (figures.step_time_s <= 0 && figures.peak_memory_gib <= 0)
    return fail(Error{"nothing_measured", "neither step time nor memory was measured: there is no run to append"});
  const StoreOptions store = StoreOptions::from_environment();
  const Result<Run> run = run_of(report.plan.problem, report.plan.best.layout, figures, preset_catalogue(store));
  if (!run) return tl::unexpected(run.error());
  std::string before;
  if (std::error_code status; std::filesystem::exists(*args.append, status)) {
    const Result<std::string> text = yaml::read_text(*args.append);
    if (!text) return tl::unexpected(text.error());
    before = *text;
  }
  const Result<std::string> text = with_run(before, *args.append, *run);
  if (!text) return tl::unexpected(text.error());
  if (const Result<bool> written = write_outputs(args, {{*args.append, *text}}); !written)
    return tl::unexpected(written.error());
  return {};
}

}  // namespace

Result<DiagnosisReport> planned_report(const Args& given) {
  const Args args = with_job_of_log(given);
  if (auto error = no_layout(args)) return fail(*error);
  const Result<Problem> problem = resolve_problem(args);
  if (!problem) return fail(problem.error());
  Result<Plan> plan = plan_layout(*problem);
  if (!plan) return fail(plan.error());
  add_launch_notes(*plan);
  DiagnosisReport report;
  report.plan = std::move(*plan);
  report.notes = report.plan.notes;
  return report;
}

std::string diagnosis_in_format(const Args& args, const DiagnosisReport& report, const Terminal& terminal) {
  if (wants_json(args)) return diagnosis_json(report);
  if (args.format == "markdown" || args.format == "github") return diagnosis_markdown(report);
  if (args.format == "html") return diagnosis_html(report);
  return diagnosis_text(report, terminal);
}

int run_diagnose(const Args& args, Streams& streams) {
  Errors errors = mistaken_flags(args);
  if (!args.follow)
    if (auto error = no_layout(with_job_of_log(args))) errors.push_back(*error);
  if (!errors.empty()) return report_errors(errors, streams);
  if (args.follow) return follow_log(args, streams);
  Result<DiagnosisReport> report = planned_report(args);
  if (!report) return report_errors(report.error(), streams);
  errors = measure_report(args, read_job_logs(args.log, report->plan.problem), *report);
  if (!errors.empty()) return report_errors(errors, streams);
  if (args.append)
    if (const Result<void> appended = append_run(args, *report); !appended)
      return report_errors(appended.error(), streams);
  streams.out = diagnosis_in_format(args, *report, streams.out_terminal);
  return kYes;
}

}  // namespace plan
