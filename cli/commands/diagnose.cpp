// `plan diagnose`: a run that was measured beside what was predicted for it. Tested by tests/cli/diagnose_test.cpp and
// tests/golden/diagnose*.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/commands/commands.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/launch/megatron_log.hpp"
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

/// The time of a step from whatever the log prints of its speed.
std::optional<Steady> step_of(const MeasuredLog& log, const Problem& problem) {
  if (const Series* times = log.find(LogFigure::StepTime)) return steady(*times);
  const auto from_rate = [&](LogFigure figure, double work) -> std::optional<Steady> {
    const Series* rates = log.find(figure);
    if (rates == nullptr) return std::nullopt;
    Steady rate = steady(*rates);
    if (!(rate.median > 0)) return std::nullopt;
    rate.median = work / rate.median;
    return rate;
  };
  const double sequences = static_cast<double>(problem.training.global_batch);
  const double tokens = static_cast<double>(problem.training.tokens_per_step());
  if (auto step = from_rate(LogFigure::TokensPerSecondGpu, tokens / problem.gpus)) return step;
  if (auto step = from_rate(LogFigure::TokensPerSecond, tokens)) return step;
  return from_rate(LogFigure::SamplesPerSecond, sequences);
}

/// A log of another job tells nothing about this one.
std::optional<Error> other_job(const MeasuredLog& log, const Problem& problem) {
  const Series* batches = log.find(LogFigure::GlobalBatch);
  if (batches == nullptr || std::llround(batches->last()) == problem.training.global_batch) return std::nullopt;
  return Error{"files_disagree",
               fmt::format("{} is of steps of {:.0f} sequences, and the job has {}", log.file, batches->last(),
                           problem.training.global_batch),
               {},
               {fmt::format("--global-batch {:.0f}", batches->last())}};
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
  const std::pair<LogFigure, const char*> kinds[] = {{LogFigure::Allocated, "allocated"},
                                                     {LogFigure::Reserved, "reserved"}};
  for (const auto& [figure, kind] : kinds) {
    double most = figure == LogFigure::Allocated ? report.snapshot_allocated : report.snapshot_reserved;
    for (const MeasuredLog& log : report.logs)
      if (const Series* series = log.find(figure)) most = std::max(most, series->largest());
    if (most > 0)
      report.memory.push_back({kind, most, predicted_memory(report.plan.best, kind),
                               memory_causes(report.plan.problem, report.plan.best, kind, most)});
  }
}

/// Ranks whose own steps take longer than the others' name the slow one.
void compare_ranks(const std::vector<Steady>& steps, const std::vector<MeasuredLog>& logs,
                   std::vector<Evidence>& evidence) {
  constexpr double kSlower = 1.03;
  if (steps.size() < 2) return;
  std::vector<double> medians;
  for (const Steady& step : steps) medians.push_back(step.median);
  std::nth_element(medians.begin(), medians.begin() + static_cast<std::ptrdiff_t>(medians.size() / 2), medians.end());
  const double usual = medians[medians.size() / 2];
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].median > kSlower * usual)
      evidence.push_back(
          {"slow_rank", true,
           fmt::format("{} takes {:.3g} s a step, the others {:.3g} s", logs[i].file, steps[i].median, usual)});
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

Errors missing_files(const Args& args) {
  Errors errors;
  if (args.log.empty() && args.trace.empty() && args.snapshot.empty())
    errors.push_back({"missing_flag",
                      "`plan diagnose` needs what was measured",
                      {},
                      {"write `--log out.log` or `--trace trace.json`"}});
  if (!args.layout && args.from.empty())
    errors.push_back({"missing_flag",
                      "nothing says which layout ran",
                      args.log.empty()
                          ? std::vector<std::string>{}
                          : std::vector<std::string>{"no log prints its job's arguments, as Megatron-LM's do"},
                      {"write `--from train.sbatch`, or `--model`, `--gpus` and `--layout tp8,pp16`"}});
  return errors;
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
  std::vector<Steady> steps;
  for (const std::string& file : args.log)
    take(read_log(file), [&](const MeasuredLog& log) {
      if (auto error = other_job(log, report.plan.problem)) return errors.push_back(*error);
      report.logs.push_back(log);
      evidence.insert(evidence.end(), log.evidence.begin(), log.evidence.end());
      if (auto step = step_of(log, report.plan.problem)) steps.push_back(*step);
    });
  compare_ranks(steps, report.logs, evidence);
  if (!steps.empty()) report.step = steps.front();
  for (const std::string& file : args.smi)
    take(read_smi(file),
         [&](const std::vector<Evidence>& seen) { evidence.insert(evidence.end(), seen.begin(), seen.end()); });
  for (const std::string& file : args.snapshot)
    take(read_snapshot(file), [&](const MemorySnapshot& snapshot) { take_snapshot(snapshot, report); });
  for (const std::string& file : args.trace)
    take(read_trace(file), [&](const Trace& trace) {
      const auto part_of = [&](const TraceGroup& group) { return part_of_group(group, report.plan.best.layout); };
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

int run_diagnose(const Args& given, Streams& streams) {
  const Args args = with_job_of_log(given);
  Errors errors = missing_files(args);
  if (!errors.empty()) return report_errors(errors, streams);
  const Result<Problem> problem = resolve_problem(args);
  if (!problem) return report_errors(problem.error(), streams);
  Result<Plan> plan = plan_layout(*problem, complete_layout(*problem));
  if (!plan) return report_errors(plan.error(), streams);
  add_launch_notes(*plan);
  DiagnosisReport report;
  report.plan = std::move(*plan);
  report.notes = report.plan.notes;
  std::vector<Evidence> evidence;
  errors = read_files(args, report, evidence);
  if (!errors.empty()) return report_errors(errors, streams);
  measure(report);
  compare_memory(report);
  if (report.measured.seconds[0])
    report.diagnosis = diagnose(report.plan.problem, report.plan.best, report.measured, evidence);
  if (args.append)
    if (const Result<void> appended = append_run(args, report); !appended)
      return report_errors(appended.error(), streams);
  if (wants_json(args))
    streams.out = diagnosis_json(report);
  else if (args.format == "markdown" || args.format == "github")
    streams.out = diagnosis_markdown(report);
  else if (args.format == "html")
    streams.out = diagnosis_html(report);
  else
    streams.out = diagnosis_text(report, streams.out_terminal);
  return kYes;
}

}  // namespace plan
