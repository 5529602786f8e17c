// What `plan diagnose` takes from the files of a run: times, memory, and what speaks for faults. Tested by
// tests/cli/diagnose_test.cpp and tests/cli/faulty_runs_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/commands/diagnose.hpp"
#include "cli/launch/megatron/log.hpp"
#include "cli/logs/log_read.hpp"
#include "cli/logs/smi_read.hpp"
#include "cli/logs/snapshot_read.hpp"
#include "cli/logs/trace_groups.hpp"
#include "cli/logs/trace_signs.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/format.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/planner.hpp"

namespace plan {
namespace {

/// Switches that would make the prediction what was measured, to within a twentieth.
std::vector<std::string> memory_causes(const Problem& problem, const Estimate& estimate, std::string_view kind,
                                       RealBytes measured) {
  struct Switch {
    const char* text;
    void (*turn)(Problem&, Layout&);
  };
  constexpr Switch kSwitches[] = {
      {"nothing were recomputed", [](Problem&, Layout& l) { l.recompute = {}, l.stages.clear(); }},
      {"every layer were recomputed",
       [](Problem&, Layout& l) {
         l.recompute = {RecomputeKind::Full, 0, 0, 0}, l.stages.clear();
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
  const std::pair<RealBytes, const char*> kinds[] = {
      {std::max(report.snapshot_allocated, most_memory(report.logs, LogFigure::Allocated)), "allocated"},
      {std::max(report.snapshot_reserved, most_memory(report.logs, LogFigure::Reserved)), "reserved"},
      {std::max(report.device_used, most_memory(report.logs, LogFigure::Device)), "device"}};
  for (const auto& [most, kind] : kinds) {
    if (most > RealBytes(0))
      report.memory.push_back({kind, most, predicted_memory(report.plan.best, kind),
                               memory_causes(report.plan.problem, report.plan.best, kind, most)});
  }
}

/// Memory as if every layer were recomputed, where that was not planned, shows that it is; memory as planned, that it
/// is not.
void memory_evidence(const DiagnosisReport& report, std::vector<Evidence>& evidence) {
  constexpr double kNear = 0.05, kApart = 0.15;
  const Layout& layout = report.plan.best.layout;
  if (layout.recompute.kind == RecomputeKind::Full) return;
  Layout full = layout;
  full.recompute = {RecomputeKind::Full, 0, 0, 0}, full.stages.clear();
  const Estimate recomputed = plan::estimate(report.plan.problem, full);
  for (const MemoryCompared& memory : report.memory) {
    const RealBytes instead = predicted_memory(recomputed, memory.kind);
    if (instead > (1 - kApart) * memory.predicted) continue;
    const bool as_planned = std::fabs(memory.measured / memory.predicted - 1) < kNear;
    if (!as_planned && !(std::fabs(memory.measured / instead - 1) < kNear)) continue;
    evidence.push_back({"recompute_on", !as_planned,
                        fmt::format("{} memory is {}, and would be {} if every layer were recomputed", memory.kind,
                                    memory_text(round_bytes(memory.measured)), memory_text(round_bytes(instead)))});
  }
}

/// What the log prints of the job's arguments, where another file says what was planned: it shows what ran.
void printed_evidence(const Args& args, const DiagnosisReport& report, std::vector<Evidence>& evidence) {
  for (const std::string& log : args.log) {
    if ((!args.from.empty() && args.from.front() == log) || !printed_arguments(log)) continue;
    Args ran = args;
    ran.from = {log}, ran.layout.reset();
    const Result<Problem> problem = resolve_problem(ran);
    const Result<Plan> plan = problem ? plan_layout(*problem) : fail(problem.error());
    if (!plan) continue;
    const Layout &was = report.plan.best.layout, &is = plan->best.layout;
    const Stack &planned = report.plan.problem.training.stack, &printed = plan->problem.training.stack;
    const auto shows = [&](bool fault, const char* code, const char* what) {
      if (fault) evidence.push_back({code, true, fmt::format("{} prints {}", log, what), true});
    };
    shows(is.recompute.kind == RecomputeKind::Full && was.recompute.kind != RecomputeKind::Full, "recompute_on",
          "full recomputation among its arguments");
    shows(planned.overlap_grad_reduce && !printed.overlap_grad_reduce, "no_overlap",
          "its arguments without --overlap-grad-reduce");
    shows(planned.overlap_param_gather && !printed.overlap_param_gather, "no_overlap",
          "its arguments without --overlap-param-gather");
    shows(planned.flash_attention && !printed.flash_attention, "no_flash", "attention that is not fused");
    shows(planned.fused_pointwise && !printed.fused_pointwise, "eager_kernels", "fusions switched off");
    shows(is.order != was.order, "wrong_order", "another order of the axes among its arguments");
  }
}

/// A trace without its end holds whole steps where they are marked, or where the log says how long one is.
Errors without_end(const std::vector<Trace>& traces, DiagnosisReport& report) {
  Errors errors;
  for (const Trace& trace : traces) {
    if (trace.cut.empty()) continue;
    if (trace.steps.empty() && !report.step)
      errors.push_back({"cut_trace",
                        fmt::format("{} has no end ({}), and no mark of a whole step before it", trace.file, trace.cut),
                        {},
                        {"give the log of the run, whose step time divides the trace, with `--log`"},
                        {trace.file, 0, 0, 1, {}}});
    else
      report.notes.push_back(
          {"cut_trace", fmt::format("{} has no end ({}): what is before it is compared", trace.file, trace.cut)});
  }
  return errors;
}

/// Traces of ranks: the first one's times are compared, and the others say whether it represents them.
void take_traces(const std::vector<Trace>& traces, DiagnosisReport& report, std::vector<Evidence>& evidence) {
  for (const Trace& trace : traces) {
    if (trace.of_cpu)
      report.notes.push_back(
          {"cpu_trace", trace.file + " has no kernel of a GPU: the times are of operators on the CPU"});
    const std::vector<Observable> parts = parts_of_groups(trace, report.plan.best.layout);
    report.traces.push_back(trace_times(trace, parts, report.step ? report.step->median : 0));
    report.trace_files.push_back(trace.file);
    if (report.traces.size() > 1) continue;
    const std::vector<Evidence> signs =
        signs_of(trace, parts, report.traces.front(), report.plan.problem, report.plan.best);
    evidence.insert(evidence.end(), signs.begin(), signs.end());
  }
  const std::vector<Evidence> between = signs_between(traces, report.traces);
  evidence.insert(evidence.end(), between.begin(), between.end());
}

/// Reads all files into the report; `evidence` collects what speaks for faults.
Errors read_files(const Args& args, DiagnosisReport& report, std::vector<Evidence>& evidence) {
  Errors errors;
  const auto take = [&](auto&& result, const auto& use) {
    if (keep_errors(errors, result)) use(*result);
  };
  for (const std::string& file : args.smi)
    take(read_smi(file), [&](const SmiSummary& seen) {
      evidence.insert(evidence.end(), seen.evidence.begin(), seen.evidence.end());
      report.device_used = std::max(report.device_used, seen.memory_used);
    });
  for (const std::string& file : args.snapshot)
    take(read_snapshot(file), [&](const MemorySnapshot& snapshot) { take_snapshot(snapshot, report); });
  std::vector<Trace> traces;
  for (const std::string& file : args.trace)
    take(read_traces(file), [&](std::vector<Trace>& ranks) {
      traces.insert(traces.end(), std::make_move_iterator(ranks.begin()), std::make_move_iterator(ranks.end()));
    });
  if (errors.empty()) errors = without_end(traces, report);
  if (errors.empty() && !traces.empty()) take_traces(traces, report, evidence);
  return errors;
}

void measure(DiagnosisReport& report) {
  auto& seconds = report.measured.seconds;
  if (!report.traces.empty())
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = report.traces.front().parts[i];
  if (!report.step) return;
  seconds[0] = report.step->median;
  report.measured.spread = report.step->spread / std::sqrt(static_cast<double>(report.step->used));
  if (report.step->spikes > 0)
    report.notes.push_back({"spikes", fmt::format("{} steps took more than one and a half times the median: "
                                                  "checkpoints, evaluation, or stalls of storage",
                                                  report.step->spikes)});
}

}  // namespace

Errors measure_report(const Args& args, const Result<JobLogs>& logs, DiagnosisReport& report) {
  Errors errors = logs ? Errors{} : logs.error();
  std::vector<Evidence> evidence;
  if (logs) report.logs = logs->logs, report.step = logs->step, evidence = logs->evidence;
  const Errors of_files = read_files(args, report, evidence);
  errors.insert(errors.end(), of_files.begin(), of_files.end());
  if (logs) {
    const RealBytes device = std::max({report.device_used, report.snapshot_allocated, report.snapshot_reserved});
    const Errors beyond = beyond_gpus(*logs, device, report.plan.problem, report.plan.best);
    errors.insert(errors.end(), beyond.begin(), beyond.end());
    for (const MeasuredLog& log : report.logs)
      for (std::string& said : speeds_apart(log, report.plan.problem))
        report.notes.push_back({"speeds_apart", std::move(said)});
  }
  if (!errors.empty()) return errors;
  measure(report);
  compare_memory(report);
  memory_evidence(report, evidence);
  printed_evidence(args, report, evidence);
  if (report.measured.seconds[0])
    report.diagnosis = diagnose(report.plan.problem, report.plan.best, report.measured, evidence);
  return {};
}

}  // namespace plan
