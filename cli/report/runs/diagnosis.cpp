// What `plan diagnose` prints. Tested by tests/cli/diagnose_test.cpp.
#include "cli/report/runs/diagnosis.hpp"

#include <fmt/format.h>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/report/runs/diagnosis_rows.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/json_list.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan {
namespace {

std::string rows(const DiagnosisReport& report) {
  std::string out = "                   measured  predicted     off  interval of the model\n";
  for (const ComparedRow& row : compared_rows(report)) {
    std::string line = fmt::format("  {:<14} {:>10} {:>10} {:>7}  {}{}", row.part, row.measured, row.predicted, row.off,
                                   row.interval, row.stands_out ? "  <- stands out" : "");
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string suspects(const DiagnosisReport& report, const Terminal& terminal) {
  if (const std::string none = unsuspected_text(report.diagnosis); !none.empty()) return none + "\n";
  if (report.diagnosis.parts.empty()) return "";
  std::string out = paint(terminal, Style::Bold, "What it could be, likeliest first") + "\n";
  int number = 0;
  for (const SuspectRow& row : suspect_rows(report)) {
    out += fmt::format("  {}  {:>5}  {}\n", ++number, row.share, wrap(row.fault, terminal.width, 12, 12));
    out += fmt::format("            look at: {}\n", wrap(row.look, terminal.width, 21, 21));
    out += fmt::format("            settle by: {}\n", wrap(row.settle, terminal.width, 23, 23));
    for (const std::string& seen : row.evidence) out += fmt::format("            {}\n", seen);
  }
  return out;
}

std::string trace_lines(const DiagnosisReport& report) {
  if (report.traces.empty()) return "";
  std::string out = fmt::format("Kernels of the trace, seconds a step ({} steps)\n", report.traces.front().steps);
  for (const TraceRow& row : kernel_rows(report)) out += fmt::format("  {:<26} {:>10}\n", row.what, row.time);
  const std::vector<RankRow> ranks = rank_rows(report);
  if (!ranks.empty()) out += "Ranks, seconds a step: compute, communication, idle\n";
  for (const RankRow& rank : ranks)
    out += fmt::format("  {:>10} {:>10} {:>10}  {}\n", rank.compute, rank.communication, rank.idle, rank.file);
  return out + "\n";
}

std::string trace_tables(const DiagnosisReport& report) {
  if (report.traces.empty()) return "";
  std::string out =
      fmt::format("| kernels of the trace ({} steps) | a step |\n|---|--:|\n", report.traces.front().steps);
  for (const TraceRow& row : kernel_rows(report)) out += fmt::format("| {} | {} |\n", row.what, row.time);
  const std::vector<RankRow> ranks = rank_rows(report);
  if (!ranks.empty()) out += "\n| rank | compute | communication | idle |\n|---|--:|--:|--:|\n";
  for (const RankRow& rank : ranks)
    out += fmt::format("| {} | {} | {} | {} |\n", rank.file, rank.compute, rank.communication, rank.idle);
  return out + "\n";
}

Json traces_json(const DiagnosisReport& report) {
  return json_list(report.traces, [](const TraceTimes& times) -> Json {
    Json families = Json::object(), hidden = Json::object(), parts = Json::object();
    for (int i = 0; i < kKernelFamilies; ++i)
      families[std::string(family_name(static_cast<KernelFamily>(i)))] = times.families[static_cast<std::size_t>(i)];
    for (int i = 0; i < kObservables; ++i) {
      const auto at = static_cast<std::size_t>(i);
      parts[std::string(kObservableNames[at])] = times.parts[at];
      if (times.hidden[at] > 0) hidden[std::string(kObservableNames[at])] = times.hidden[at];
    }
    return {{"steps", times.steps},
            {"parts_s", parts},
            {"hidden_s", hidden},
            {"families_s", families},
            {"launch_gaps_s", times.gaps}};
  });
}

Json part_json(const ComparedPart& part) {
  return {{"part", part_name(part.part)},
          {"measured_s", part.measured},
          {"predicted_s", part.predicted},
          {"sigma_s", part.sigma},
          {"z", part.z()}};
}

Json suspect_json(const Suspect& suspect) {
  Json evidence = json_list(suspect.evidence, [](const Evidence& seen) -> Json {
    return {{"speaks_for", seen.speaks_for}, {"text", seen.text}};
  });
  return {{"code", suspect.fault->code},         {"what", suspect.fault->what},      {"factor", suspect.factor},
          {"share_ratio", suspect.share},        {"misfit", suspect.misfit},         {"look_at", suspect.fault->look},
          {"settle_by", suspect.fault->confirm}, {"besides_first", suspect.besides}, {"evidence", evidence}};
}

Json log_json(const MeasuredLog& log) {
  Json json = {{"dialect", log.dialect}, {"lines", log.lines}, {"nccl_versions", log.nccl_versions}};
  const auto last = [&](const char* key, LogFigure figure) {
    if (const Series* series = log.find(figure)) json[key] = series->last();
  };
  last("loss_scale", LogFigure::LossScale);
  if (const auto skipped = log.skipped()) json["skipped_steps"] = *skipped;
  if (const Series* not_number = log.find(LogFigure::NotNumber)) json["nan_steps"] = not_number->sum();
  if (log.nccl_channels > 0) json["nccl_channels"] = log.nccl_channels;
  if (const Series* tflops = log.find(LogFigure::TflopsPerGpu)) json["tflops_per_gpu"] = steady(*tflops).median;
  if (log.out_of_memory)
    json["out_of_memory"] = {{"asked_bytes", log.out_of_memory->asked.value},
                             {"free_bytes", log.out_of_memory->free.value},
                             {"capacity_bytes", log.out_of_memory->capacity.value},
                             {"allocated_bytes", log.out_of_memory->allocated.value},
                             {"reserved_unused_bytes", log.out_of_memory->reserved_unused.value}};
  return json;
}

Json counted_json(const DiagnosisReport& report) {
  const CountedTflops counted = counted_tflops(report);
  return {{"model_causal", counted.causal}, {"model_full", counted.full}, {"hardware", counted.hardware}};
}

}  // namespace

std::string diagnosis_text(const DiagnosisReport& report, const Terminal& terminal) {
  const Problem& problem = report.plan.problem;
  std::string out =
      fmt::format("{} on {} x {}: measured beside predicted\n", paint(terminal, Style::Bold, problem.model.name),
                  problem.gpus, problem.cluster.gpu.name);
  out += dim_lines(unstated_lines(problem), terminal);
  out += fmt::format("  {}\n", axes_text(report.plan.best, problem.model.moe()));
  for (const std::string& line : measured_lines(report)) out += fmt::format("  {}\n", wrap(line, terminal.width, 4));
  out += "\n" + rows(report) + "\n" + trace_lines(report);
  for (const std::string& line : memory_lines(report)) out += line + "\n";
  out += suspects(report, terminal);
  for (const Note& note : report.notes) out += fmt::format("note: {}\n", wrap(note.text, terminal.width, 6));
  return out;
}

std::string diagnosis_json(const DiagnosisReport& report) {
  Json json = {{"schema", "plan-diagnose/1"},
               {"model", report.plan.problem.model.name},
               {"gpus", report.plan.problem.gpus},
               {"layout", layout_flag(report.plan.best.layout)}};
  json["logs"] = json_list(report.logs, log_json);
  if (report.step)
    json["steps"] = {{"used", report.step->used},
                     {"warm_up", report.step->left_out},
                     {"spikes", report.step->spikes},
                     {"median_s", report.step->median},
                     {"spread_ratio", report.step->spread}};
  if (report.step) json["counted_tflops_per_gpu"] = counted_json(report);
  if (!report.traces.empty()) json["traces"] = traces_json(report);
  json["parts"] = json_list(report.diagnosis.parts, part_json);
  json["memory"] = json_list(report.memory, [](const MemoryCompared& memory) -> Json {
    return {{"kind", memory.kind},
            {"measured_bytes", memory.measured.value},
            {"predicted_bytes", memory.predicted.value},
            {"would_explain", memory.would_explain}};
  });
  json["stands_out"] = report.diagnosis.worst ? Json(part_name(*report.diagnosis.worst)) : Json(nullptr);
  json["suspects"] = json_list(report.diagnosis.suspects, suspect_json);
  json["unstated"] = unstated_json(report.plan.problem.inputs);
  json["unused"] = notes_json(report.plan.problem.unused);
  json["notes"] = notes_json(report.notes);
  return dump(json);
}

std::string diagnosis_markdown(const DiagnosisReport& report) {
  std::string out = fmt::format("## {} on {} x {}: measured beside predicted\n\n", report.plan.problem.model.name,
                                report.plan.problem.gpus, report.plan.problem.cluster.gpu.name);
  out += quoted_lines(unstated_lines(report.plan.problem));
  out += fmt::format("**{}**\n\n", axes_text(report.plan.best, report.plan.problem.model.moe()));
  for (const std::string& line : measured_lines(report)) out += line + "  \n";
  out += "\n| part | measured | predicted | off | interval of the model |\n|---|--:|--:|--:|--:|\n";
  for (const ComparedRow& row : compared_rows(report))
    out += fmt::format("| {}{} | {} | {} | {} | {} |\n", row.part, row.stands_out ? " **stands out**" : "",
                       row.measured, row.predicted, row.off, row.interval);
  out += "\n" + trace_tables(report);
  for (const std::string& line : memory_lines(report)) out += line + "  \n";
  if (const std::string none = unsuspected_text(report.diagnosis); !none.empty()) out += none + "\n";
  int number = 0;
  for (const SuspectRow& row : suspect_rows(report)) {
    out +=
        fmt::format("{}. {}: {}. Look at {}. Settle by: {}.\n", ++number, row.share, row.fault, row.look, row.settle);
    for (const std::string& seen : row.evidence) out += fmt::format("   - {}\n", seen);
  }
  for (const Note& note : report.notes) out += fmt::format("\n> note: {}\n", note.text);
  return out;
}

}  // namespace plan
