// `plan diagnose`: a run that was measured beside what was predicted for it. Tested by tests/cli/diagnose_test.cpp and
// tests/golden/diagnose*.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/commands/commands.hpp"
#include "cli/commands/diagnose.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/launch/megatron_log.hpp"
#include "cli/logs/job_logs.hpp"
#include "cli/logs/log_read.hpp"
#include "cli/logs/smi_read.hpp"
#include "cli/logs/snapshot_read.hpp"
#include "cli/report/diagnosis.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/run_files.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/format.hpp"
#include "planner/problem/complete_layout.hpp"
#include "planner/runs/run_write.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Part of a step that a communicator's messages belong to: by what the framework calls its group, else by what is sent
/// and among how many.
Observable part_of_group(const TraceGroup& group, const Layout& layout) {
  struct Word {
    std::string_view word;
    Observable part;
  };
  constexpr Word kWords[] = {
      {"expert", Observable::Ep},    {"_ep", Observable::Ep},     {"pipeline", Observable::Pipeline},
      {"_pp", Observable::Pipeline}, {"context", Observable::Cp}, {"_cp", Observable::Cp},
      {"tensor", Observable::Tp},    {"_tp", Observable::Tp},     {"data", Observable::Dp},
      {"_dp", Observable::Dp},       {"fsdp", Observable::Dp},    {"shard", Observable::Dp}};
  const std::string description = lowered(group.description);
  for (const Word& row : kWords)
    if (description.find(row.word) != std::string::npos) return row.part;
  const std::string op = lowered(group.op);
  if (op.find("sendrecv") != std::string::npos || op.find("send") == 0 || op.find("recv") == 0) {
    if (layout.ep > 1 && group.ranks == layout.ep) return Observable::Ep;
    if (layout.pp > 1) return Observable::Pipeline;
    return layout.ep > 1 ? Observable::Ep : Observable::Cp;
  }
  if (op.find("alltoall") != std::string::npos || op.find("all_to_all") != std::string::npos)
    return layout.ep > 1 ? Observable::Ep : Observable::Cp;
  if (group.ranks > 1 && group.ranks == layout.tp && layout.tp != layout.dense_group()) return Observable::Tp;
  if (group.ranks > 1 && group.ranks == layout.cp && layout.cp != layout.dense_group()) return Observable::Cp;
  if (group.ranks == 0 && layout.tp > 1 && layout.dense_group() == 1) return Observable::Tp;
  return Observable::Dp;
}

/// Switches that would make the prediction what was measured, to within a twentieth.
std::vector<std::string> memory_causes(const Problem& problem, const Estimate& estimate, std::string_view kind,
                                       double measured) {
  struct Switch {
    const char* text;
    void (*turn)(Problem&, Layout&);
  };
  constexpr Switch kSwitches[] = {
      {"nothing were recomputed", [](Problem&, Layout& l) { l.recompute = {}; }},
      {"every layer were recomputed",
       [](Problem&, Layout& l) {
         l.recompute = {RecomputeKind::Full, 0, 0, 0};
       }},
      {"the optimizer's states were not sharded", [](Problem&, Layout& l) { l.zero = 0; }},
      {"attention kept its scores", [](Problem& p, Layout&) { p.training.stack.flash_attention = false; }},
      {"norms and activations were not fused",
       [](Problem& p, Layout&) {
         p.training.stack.fused_norms = p.training.stack.fused_activation = p.training.stack.fused_pointwise = false;
       }},
      {"tensor ranks did not split the sequence", [](Problem&, Layout& l) { l.sequence_parallel = false; }},
  };
  constexpr double kNear = 0.05;
  std::vector<std::string> causes;
  if (std::fabs(measured / predicted_memory(estimate, kind) - 1) < kNear) return causes;
  for (const Switch& change : kSwitches) {
    Problem other = problem;
    Layout layout = estimate.layout;
    change.turn(other, layout);
    if (other.training.stack == problem.training.stack && layout == estimate.layout) continue;
    const Estimate changed = plan::estimate(other, layout);
    if (std::fabs(measured / predicted_memory(changed, kind) - 1) < kNear) causes.emplace_back(change.text);
  }
  return causes;
}

/// The allocator's own figures of one rank; they count beside the logs'.
void take_snapshot(const MemorySnapshot& snapshot, DiagnosisReport& report) {
  report.snapshot_allocated = std::max(report.snapshot_allocated, snapshot.peak_allocated);
  report.snapshot_reserved = std::max(report.snapshot_reserved, snapshot.reserved);
  constexpr double kScattered = 0.5;
  if (snapshot.fragmentation() > kScattered && snapshot.reserved > 1.1 * snapshot.allocated)
    report.notes.push_back(
        {"fragmentation", fmt::format("of {} free in the allocator the largest piece is {}: "
                                      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                                      memory_text(round_bytes(snapshot.reserved - snapshot.allocated)),
                                      memory_text(round_bytes(snapshot.largest_free)))});
}

void compare_memory(DiagnosisReport& report) {
  const std::pair<double, const char*> kinds[] = {
      {std::max(report.snapshot_allocated, largest_of(report.logs, LogFigure::Allocated)), "allocated"},
      {std::max(report.snapshot_reserved, largest_of(report.logs, LogFigure::Reserved)), "reserved"},
      {std::max(report.device_used, largest_of(report.logs, LogFigure::Device)), "device"}};
  for (const auto& [most, kind] : kinds) {
    if (most > 0)
      report.memory.push_back({kind, most, predicted_memory(report.plan.best, kind),
                               memory_causes(report.plan.problem, report.plan.best, kind, most)});
  }
}

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

/// Reads all files into the report; `evidence` collects what speaks for faults.
Errors read_files(const Args& args, DiagnosisReport& report, std::vector<Evidence>& evidence) {
  Errors errors;
  const auto take = [&](const auto& result, const auto& use) {
    if (result)
      use(*result);
    else
      errors.insert(errors.end(), result.error().begin(), result.error().end());
  };
  for (const std::string& file : args.smi)
    take(read_smi(file), [&](const SmiSummary& seen) {
      evidence.insert(evidence.end(), seen.evidence.begin(), seen.evidence.end());
      report.device_used = std::max(report.device_used, seen.memory_used);
    });
  for (const std::string& file : args.snapshot)
    take(read_snapshot(file), [&](const MemorySnapshot& snapshot) { take_snapshot(snapshot, report); });
  for (const std::string& file : args.trace)
    take(read_trace(file), [&](const Trace& trace) {
      const auto part_of = [&](const TraceGroup& group) { return part_of_group(group, report.plan.best.layout); };
      if (trace.of_cpu)
        report.notes.push_back(
            {"cpu_trace", trace.file + " has no kernel of a GPU: the times are of operators on the CPU"});
      report.trace = trace_times(trace, part_of, report.step ? report.step->median : 0);
    });
  return errors;
}

void measure(DiagnosisReport& report) {
  auto& seconds = report.measured.seconds;
  if (report.trace)
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = report.trace->parts[i];
  if (!report.step) return;
  seconds[0] = report.step->median;
  report.measured.spread = report.step->spread / std::sqrt(static_cast<double>(report.step->used));
  if (report.step->spikes > 0)
    report.notes.push_back({"spikes", fmt::format("{} steps took more than one and a half times the median: "
                                                  "checkpoints, evaluation, or stalls of storage",
                                                  report.step->spikes)});
}

/// --append: what was measured as a row of plan-runs(5), below those that the file holds.
Result<void> append_run(const Args& args, const DiagnosisReport& report) {
  MeasuredFigures figures;
  const std::string source = !args.log.empty() ? args.log.front() : !args.trace.empty() ? args.trace.front() : "";
  const std::filesystem::path file(source);
  figures.id = file.stem().string(), figures.source = file.filename().string(), figures.suite = "own";
  figures.step_time_s = report.measured.seconds[0].value_or(0);
  if (!report.memory.empty()) {
    figures.peak_memory_gib = report.memory.front().measured / kGiB;
    figures.memory_kind = report.memory.front().kind;
  }
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
  Result<Plan> plan = plan_layout(*problem, complete_layout(*problem));
  if (!plan) return fail(plan.error());
  add_launch_notes(*plan);
  DiagnosisReport report;
  report.plan = std::move(*plan);
  report.notes = report.plan.notes;
  return report;
}

Errors measure_report(const Args& args, const Result<JobLogs>& logs, DiagnosisReport& report) {
  Errors errors = logs ? Errors{} : logs.error();
  std::vector<Evidence> evidence;
  if (logs) report.logs = logs->logs, report.step = logs->step, evidence = logs->evidence;
  const Errors of_files = read_files(args, report, evidence);
  errors.insert(errors.end(), of_files.begin(), of_files.end());
  if (!errors.empty()) return errors;
  measure(report);
  compare_memory(report);
  if (report.measured.seconds[0])
    report.diagnosis = diagnose(report.plan.problem, report.plan.best, report.measured, evidence);
  return {};
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
