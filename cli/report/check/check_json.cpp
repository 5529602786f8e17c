// `plan check --json`, schema plan-check/1: the same findings, and the plan of each job, so that the file is a baseline
// too. Tested by tests/cli/check_formats_test.cpp.
#include "cli/report/check/check.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/terminal/json_list.hpp"

namespace plan {
namespace {

std::string_view unit_name(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::Memory:
    case MetricUnit::Traffic: return "bytes";
    case MetricUnit::Time: return "s";
    case MetricUnit::Ratio: return "ratio";
    case MetricUnit::Rate: return "tokens/s";
    case MetricUnit::Count: return "gpus";
    case MetricUnit::Hours: return "gpu_hours";
    case MetricUnit::Money: return "usd";
  }
  return "";
}

std::string_view state_name(State state) {
  return state == State::Fail ? "fail" : state == State::Warn ? "warn" : "pass";
}

void add_place(Json& json, const Place& place) {
  if (place.file.empty()) return;
  json["file"] = place.file;
  if (place.line > 0) json["line"] = place.line, json["column"] = place.column;
}

Json cause_json(const Cause& cause) {
  Json json = {{"key", cause.key}, {"before", cause.before}, {"after", cause.after}};
  if (cause.place.line > 0) json["file"] = cause.place.file, json["line"] = cause.place.line;
  if (!cause.known) return json;
  json["effect"] = cause.effect;
  json["memory_bytes"] = Json::object();
  for (const auto& [category, bytes] : cause.memory) json["memory_bytes"][category] = bytes.value;
  return json;
}

Json bound_json(const Verdict& v) {
  return {{"sense", v.bound.sense == Sense::AtMost ? "at_most" : "at_least"},
          {"value", v.bound.value},
          {"relative", v.bound.relative},
          {"text", v.bound.text}};
}

Json finding_json(const Finding& f) {
  Json json = {{"rule", f.rule}, {"state", state_name(f.state)}, {"at_risk", f.at_risk}};
  if (f.measured) json["measured"] = true;
  if (f.verdict) {
    const Verdict& v = *f.verdict;
    json["unit"] = unit_name(f.unit);
    json["now"] = v.now.value, json["now_low"] = v.now.low, json["now_high"] = v.now.high;
    if (v.before) json["before"] = *v.before;
    json["bound"] = bound_json(v);
    json["counted"] = v.counted;
    json["margin"] = v.margin;
    if (f.predicted) json["predicted"] = *f.predicted;
  }
  add_place(json, f.place);
  if (f.state == State::Pass) return json;
  json["message"] = f.message;
  json["facts"] = f.facts;
  json["causes"] = json_list(f.causes, cause_json);
  return json;
}

Json suggestion_json(const Suggestion& s) {
  const auto step_json = [](const Step& step) {
    Json json = {{"key", step.key}, {"before", step.before}, {"after", step.after}};
    if (step.place.line > 0) json["file"] = step.place.file, json["line"] = step.place.line;
    return json;
  };
  return {{"changes", json_list(s.steps, step_json)},
          {"peak_bytes", s.peak.value},
          {"step_time_s", s.step_time.value},
          {"restores_baseline", s.restores}};
}

Json measured_json(const MeasuredJob& m) {
  Json json = {{"files", m.files}};
  if (m.step)
    json["step_time_s"] = m.step->median, json["steps"] = m.step->used, json["warm_up"] = m.step->left_out,
    json["spread_ratio"] = m.step->spread;
  if (m.peak > RealBytes(0))
    json["peak_bytes"] = m.peak.value, json["peak_kind"] = m.peak_kind, json["unseen_bytes"] = m.unseen.value;
  return json;
}

Json job_json(const CheckedJob& job) {
  Json json = {{"name", job.name}, {"budget", job.budget}, {"title", job.title}};
  if (!job.baseline.empty()) json["baseline"] = job.baseline;
  if (job.measured) json["measured"] = measured_json(*job.measured);
  json["limits"] = json_list(job.findings, finding_json);
  json["suggestions"] = json_list(job.suggestions, suggestion_json);
  json["notes"] = notes_json(job.notes);
  if (job.plan) json["plan"] = plan_json(*job.plan, {});
  return json;
}

}  // namespace

std::string check_json(const CheckReport& report) {
  return dump({{"schema", "plan-check/1"},
               {"tool", {{"name", "plan"}, {"version", PLAN_VERSION}}},
               {"budgets", report.budgets},
               {"summary",
                {{"limits", report.total()},
                 {"failed", report.count(State::Fail)},
                 {"warned", report.count(State::Warn)},
                 {"passed", report.count(State::Pass)},
                 {"warn_only", report.warn_only}}},
               {"jobs", json_list(report.jobs, job_json)}});
}

}  // namespace plan
