// One job of a budget: estimated, judged, explained. Tested by tests/cli/check_test.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/check/check.hpp"
#include "planner/estimate/claims.hpp"
#include "planner/planner.hpp"
#include "planner/pools/pools.hpp"

namespace plan {
namespace {

Place job_place(const ResolvedJob& job, std::string_view key) {
  if (Place place = place_of_input(job, key); place.line > 0) return place;
  const auto word = job.budget->words.find("layout");
  return word == job.budget->words.end() ? job.budget->place : word->second.place;
}

/// A layout that no framework could run, or none at all: a failed limit like any other.
Finding impossible(const ResolvedJob& job, const Errors& errors) {
  Finding finding{.rule = "layout", .state = State::Fail, .now = "not possible", .limit = "a layout that can run"};
  const Error& error = errors.front();
  finding.message = error.message;
  finding.facts = error.facts;
  finding.help = error.help;
  finding.place = job_place(job, "tp");
  return finding;
}

/// What the budget's limits rest on and nobody measured here; the GPU's memory is a limit of every job.
std::vector<std::string> unmeasured_parts(const ResolvedJob& job, const Estimate& estimate) {
  std::vector<std::string> missing = unmeasured_behind(Metric::MemoryFit, job.problem, estimate);
  for (const Limit& limit : job.budget->budget.limits)
    for (std::string& part : unmeasured_behind(limit.metric, job.problem, estimate))
      if (std::find(missing.begin(), missing.end(), part) == missing.end()) missing.push_back(std::move(part));
  return missing;
}

Finding unmeasured(const ResolvedJob& job, const std::vector<std::string>& missing) {
  Finding finding{.rule = "profile", .state = State::Fail, .now = "not measured", .limit = "measured hardware"};
  finding.message =
      job.problem.cluster.measured_parts.empty()
          ? fmt::format("{} is a preset, and `--require-profile` asks for measured hardware", job.problem.cluster.name)
          : fmt::format("the profile of {} did not measure what the limits rest on: {}", job.problem.cluster.name,
                        fmt::join(missing, ", "));
  finding.help = {"measure a node with `plan probe -o node.yaml` and name it in the budget: `profile: node.yaml`"};
  for (const char* key : {"profile", "cluster", "gpu", "gpus"})
    if (const auto word = job.budget->words.find(key); finding.place.line == 0 && word != job.budget->words.end())
      finding.place = word->second.place;
  if (finding.place.line == 0) finding.place = job.budget->place;
  return finding;
}

/// What was measured, and which limits were not.
Note notes_of_run(const MeasuredJob& measured, const std::vector<Finding>& findings) {
  std::vector<std::string> predicted;
  for (const Finding& finding : findings)
    if (!finding.measured) predicted.push_back(finding.rule);
  std::string text = fmt::format("measured: {}", measured_text(measured));
  if (!predicted.empty())
    text += fmt::format("; predicted, since the run does not show it: {}", fmt::join(predicted, ", "));
  return {"measured", text};
}

/// Limits since a baseline of another job hold or fail by what sets the jobs apart. Of one that failed, that is among
/// its causes.
void tell_other_job(const ResolvedJob& job, const EarlierPlan& baseline, CheckedJob& out) {
  const auto since = [](const Finding& finding) { return finding.rule.ends_with(".since_baseline"); };
  const auto told = [&](const Finding& finding) { return since(finding) && finding.state == State::Fail; };
  const auto& all = out.findings;
  if (std::none_of(all.begin(), all.end(), since) || std::any_of(all.begin(), all.end(), told)) return;
  if (const std::string apart = inputs_apart(job, baseline); !apart.empty())
    out.notes.push_back(
        {"baseline_of_other_job", fmt::format("{} is of a job with other inputs: {}", baseline.file, apart)});
}

Result<Plan> estimated(const ResolvedJob& job) {
  if (job.layout) return plan_layout(job.problem, *job.layout);
  if (job.pooled) return plan_pooled(job.problem);
  Problem problem = job.problem;
  problem.top = 1;
  return search(problem);
}

}  // namespace

Result<CheckedJob> check_job(const ResolvedJob& job, const EarlierPlan* baseline, bool require_profile) {
  CheckedJob out{
      .name = job.budget->name,
      .title = fmt::format("{} on {} x {}", job.problem.model.name, job.problem.gpus, job.problem.cluster.gpu.name),
      .budget = job.budget->place.file};
  if (baseline != nullptr) out.baseline = baseline->file;
  const Result<Plan> now = estimated(job);
  std::vector<Restoration> restored;
  std::optional<Layout> layout = job.layout;
  if (now && !layout && job.problem.pools.empty()) {
    layout = now->best.layout;
    if (!job.problem.fixed.chunk_layers) layout->chunk_layers.clear();  // they follow from what changes
  }
  Problem trained = job.problem;
  if (now) trained.gpus = now->problem.gpus;
  if (baseline != nullptr && layout) restored = restorations(trained, *layout, earlier_job(*baseline));
  if (baseline != nullptr && layout && now)
    for (Restoration& word : word_restorations(job, *now, *layout, *baseline)) restored.push_back(std::move(word));
  if (now) {
    out.plan = *now;
    out.notes = now->notes;
    out.findings = find_findings(job, *now, baseline, restored);
    if (!job.logs.empty()) {
      Result<MeasuredJob> measured = measured_job(job.logs, job.smi, job.problem, now->best);
      if (!measured) return fail(measured.error());
      judge_measured(job, *now, *measured, out.findings);
      out.notes.insert(out.notes.begin(), notes_of_run(*measured, out.findings));
      for (const std::string& said : measured->speeds) out.notes.push_back({"speeds_apart", said});
      out.measured = std::move(*measured);
    }
  } else {
    out.findings.push_back(impossible(job, now.error()));
  }
  if (baseline != nullptr) tell_other_job(job, *baseline, out);
  out.notes.insert(out.notes.begin(), job.notes.begin(), job.notes.end());  // what the verdict rests on comes first
  bool limits_failed = false;
  for (const Finding& finding : out.findings)  // a change that was estimated cures no run
    limits_failed = limits_failed || (finding.state == State::Fail && !finding.measured);
  if (limits_failed && layout) out.suggestions = find_suggestions(job, *layout, baseline, restored);
  if (!require_profile) return out;
  if (const auto missing = out.plan ? unmeasured_parts(job, out.plan->best) : std::vector<std::string>{"all of it"};
      !missing.empty())
    out.findings.push_back(unmeasured(job, missing));
  return out;
}

int CheckReport::count(State state) const {
  int sum = 0;
  for (const CheckedJob& job : jobs)
    for (const Finding& finding : job.findings) sum += finding.state == state ? 1 : 0;
  return sum;
}

int CheckReport::total() const {
  int sum = 0;
  for (const CheckedJob& job : jobs) sum += static_cast<int>(job.findings.size());
  return sum;
}

}  // namespace plan
