// The words of a diagnosis. Tested by tests/cli/diagnose_test.cpp.
#include "cli/report/runs/diagnosis_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/logs/no_number.hpp"
#include "cli/terminal/format.hpp"
#include "planner/answer/normal.hpp"

namespace plan {
namespace {

/// What a rank computes, waits for or sends, and does not use, in seconds of a step.
struct RankTimes {
  double compute = 0, communication = 0, idle = 0;
};

RankTimes rank_times(const TraceTimes& times) {
  const auto part = [&](Observable of) { return times.parts[static_cast<std::size_t>(of)]; };
  RankTimes rank{part(Observable::Compute) + part(Observable::Optimizer), 0, part(Observable::Idle)};
  rank.communication = part(Observable::Step) - rank.compute - rank.idle;
  return rank;
}

/// "0.31 of what was planned", or nothing for a switch.
std::string size_text(const Suspect& suspect) {
  if (suspect.fault->least >= suspect.fault->most) return "";
  return fmt::format(", by a factor of {:.2f}", suspect.factor);
}

std::string log_line(const MeasuredLog& log, const DiagnosisReport& report) {
  std::string out = fmt::format("{}: {}", log.file, log.dialect.empty() ? "no finished step" : log.dialect);
  if (report.step && &log == &report.logs.front())
    out += fmt::format(", {} steps, {} of warm-up left out, ± {:.1f} % from step to step, {} spikes", report.step->used,
                       report.step->left_out, 100 * report.step->spread, report.step->spikes);
  if (const Series* none = log.find(LogFigure::NotNumber)) out += no_number_text(none->sum());
  if (const auto skipped = log.skipped(); skipped && *skipped > 0)
    out += fmt::format(", {:.0f} steps skipped without an update", *skipped);
  return out;
}

std::string tflops_line(const DiagnosisReport& report) {
  const CountedTflops counted = counted_tflops(report);
  const Series* own = report.logs.front().find(LogFigure::TflopsPerGpu);
  const std::string log =
      own != nullptr ? fmt::format("{:.1f} TFLOP/s a GPU as the log counts, ", steady(*own).median) : "";
  return fmt::format("{}{:.1f}{} causal and {:.1f} with full attention as plan counts", log, counted.causal,
                     own != nullptr ? "" : " TFLOP/s a GPU", counted.full);
}

}  // namespace

std::string unsuspected_text(const Diagnosis& diagnosis) {
  if (diagnosis.parts.empty() || (diagnosis.worst && !diagnosis.suspects.empty())) return "";
  if (!diagnosis.worst) return "Nothing stands out: every part lies within what the model can tell.";
  return fmt::format("{} stands out, and no fault that plan knows explains it.", part_name(*diagnosis.worst));
}

std::string fault_text(const Suspect& suspect) {
  return fmt::format("{}{}{}", suspect.besides ? "besides: " : "", suspect.fault->what, size_text(suspect));
}

std::vector<std::string> memory_lines(const DiagnosisReport& report) {
  std::vector<std::string> out;
  for (const MeasuredLog& log : report.logs) {
    if (!log.out_of_memory) continue;
    const OutOfMemory& oom = *log.out_of_memory;
    out.push_back(fmt::format("Out of memory at {}: {} asked for, {} free of {}", oom.where,
                              memory_text(round_bytes(oom.asked)), memory_text(round_bytes(oom.free)),
                              memory_text(round_bytes(oom.capacity))));
    if (oom.reserved_unused > oom.asked)
      out.push_back(fmt::format(
          "  {} lie unused in the allocator, in pieces too small: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
          memory_text(round_bytes(oom.reserved_unused))));
    const RealBytes others = oom.capacity - oom.free - oom.allocated - oom.reserved_unused;
    const StageMemory& peak = report.plan.best.stages[static_cast<std::size_t>(report.plan.best.peak_stage)];
    if (oom.capacity > RealBytes(0) && oom.allocated > RealBytes(0) && others > 2.0 * RealBytes(peak.outside()))
      out.push_back(fmt::format("  {} are taken by something else than this process' tensors; {} were expected",
                                memory_text(round_bytes(others)), memory_text(peak.outside())));
  }
  for (const MemoryCompared& memory : report.memory)
    for (const std::string& switched : memory.would_explain)
      out.push_back(fmt::format("  {} memory would be as measured if {}", memory.kind, switched));
  return out;
}

std::string off_text(double measured, double predicted) {
  return predicted > 0 ? signed_percent(measured / predicted - 1) : "-";
}

CountedTflops counted_tflops(const DiagnosisReport& report) {
  const Estimate& planned = report.plan.best;
  const double peak = mfu_peak(report.plan.problem.cluster.gpu).rate.value / 1e12;
  const double faster = planned.step_time.value / report.step->median;
  return {planned.mfu.model_causal * faster * peak, planned.mfu.model_full * faster * peak,
          planned.mfu.hardware * faster * peak};
}

std::vector<std::string> measured_lines(const DiagnosisReport& report) {
  std::vector<std::string> out;
  for (const MeasuredLog& log : report.logs) out.push_back(log_line(log, report));
  if (report.step && !report.logs.empty()) out.push_back(tflops_line(report));
  return out;
}

std::vector<ComparedRow> compared_rows(const DiagnosisReport& report) {
  std::vector<ComparedRow> out;
  for (const ComparedPart& part : report.diagnosis.parts)
    out.push_back({std::string(part_name(part.part)), seconds_text(Seconds(part.measured)),
                   seconds_text(Seconds(part.predicted)), off_text(part.measured, part.predicted),
                   "± " + seconds_text(Seconds(kNinetyPercent * part.sigma)), report.diagnosis.worst == part.part});
  for (const MemoryCompared& memory : report.memory)
    out.push_back({memory.kind, memory_text(round_bytes(memory.measured)), memory_text(round_bytes(memory.predicted)),
                   off_text(memory.measured.value, memory.predicted.value), "", false});
  return out;
}

std::vector<SuspectRow> suspect_rows(const DiagnosisReport& report) {
  std::vector<SuspectRow> out;
  for (std::size_t i = 0; i < std::min(kMostSuspects, report.diagnosis.suspects.size()); ++i) {
    const Suspect& suspect = report.diagnosis.suspects[i];
    SuspectRow row{fmt::format("{:.0f} %", 100 * suspect.share),
                   fault_text(suspect),
                   std::string(suspect.fault->look),
                   std::string(suspect.fault->confirm),
                   {}};
    for (const Evidence& seen : suspect.evidence)
      row.evidence.push_back(fmt::format("{}: {}", seen.speaks_for ? "seen" : "against it", seen.text));
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<TraceRow> kernel_rows(const DiagnosisReport& report) {
  std::vector<TraceRow> out;
  if (report.traces.empty()) return out;
  const TraceTimes& first = report.traces.front();
  const auto line = [&](std::string what, double seconds) {
    if (seconds > 0) out.push_back({std::move(what), seconds_text(Seconds(seconds))});
  };
  for (int i = 0; i < kKernelFamilies; ++i)
    line(std::string(family_name(static_cast<KernelFamily>(i))), first.families[static_cast<std::size_t>(i)]);
  for (int i = 0; i < kObservables; ++i)
    line(fmt::format("{} beside other work", kObservableNames[static_cast<std::size_t>(i)]),
         first.hidden[static_cast<std::size_t>(i)]);
  line("gaps between launches", first.gaps);
  return out;
}

std::vector<RankRow> rank_rows(const DiagnosisReport& report) {
  std::vector<RankRow> out;
  for (std::size_t i = 0; report.traces.size() > 1 && i < report.traces.size(); ++i) {
    const RankTimes rank = rank_times(report.traces[i]);
    out.push_back({seconds_text(Seconds(rank.compute)), seconds_text(Seconds(rank.communication)),
                   seconds_text(Seconds(rank.idle)), report.trace_files[i]});
  }
  return out;
}

}  // namespace plan
