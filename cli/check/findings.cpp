// Verdicts in words: one finding a limit, the same words in every format. Tested by tests/cli/check_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/check/check.hpp"
#include "cli/check/limit_text.hpp"
#include "cli/terminal/format.hpp"
#include "presets/shell_quoted.hpp"

namespace plan {
namespace {

std::string rule_id(const Limit& limit) {
  return std::string(metric_row(limit.metric).name) + (limit.since_baseline ? ".since_baseline" : "");
}

/// "stage 1", "stages 1-7": those around the worst that need as much on the screen.
std::string worst_stages(const Estimate& e) {
  if (e.stages.size() < 2) return "each GPU";
  const auto same = [&](int stage) { return gib(e.stages[static_cast<std::size_t>(stage)].total()) == gib(e.peak); };
  int first = e.peak_stage, last = e.peak_stage;
  while (first > 0 && same(first - 1)) --first;
  while (last + 1 < static_cast<int>(e.stages.size()) && same(last + 1)) ++last;
  return first == last ? fmt::format("stage {}", first) : fmt::format("stages {}-{}", first, last);
}

/// "63.0-63.6 GiB": predicted, and the end of the interval where that is what counts.
std::string now_text(const Verdict& v, MetricUnit unit) {
  std::string now = figure_text(unit, v.now.value);
  const std::string end = figure_text(unit, v.counted);
  if (v.limit.since_baseline || now == end) return now;
  const std::size_t space = now.find(' ');
  if (space != std::string::npos && now.substr(space) == end.substr(std::min(end.find(' '), end.size())))
    return fmt::format("{}-{}", now.substr(0, space), end);
  return fmt::format("{} to {}", now, end);
}

/// The change since the baseline: "+8.5 GiB", "+15.6 %".
std::string moved_text(const Verdict& v, MetricUnit unit, bool relative) {
  if (!v.before) return {};
  if (!relative) return change_text(unit, v.now.value - *v.before);
  if (v.now.value == *v.before) return "=";
  if (*v.before == 0) return change_text(unit, v.now.value);
  return signed_percent((v.now.value - *v.before) / *v.before);
}

/// The kind of GPU that the fullest stage runs on.
std::string fullest_gpu(const Plan& now) {
  std::string gpu = now.problem.cluster.gpu.name;
  for (const PoolRun& run : now.best.runs)
    if (run.first_stage <= now.best.peak_stage) gpu = run.gpu;
  return gpu;
}

std::string limit_text(const Verdict& v, const Problem& problem) {
  if (v.limit.metric == Metric::MemoryFit)
    return fmt::format("GPU has {}",
                       memory_text(problem.pools.empty() ? problem.cluster.gpu.memory : round_bytes(v.bound.value)));
  return v.bound.text;
}

/// Size of the margin, in the unit that the figure is shown in.
std::string distance(const Verdict& v, MetricUnit unit) {
  const double size = std::fabs(v.margin);
  if (v.limit.since_baseline && v.bound.relative) return fmt::format("{:.1f} points", 100 * size);
  if (unit == MetricUnit::Ratio) return fmt::format("{:.1f} points", 100 * size);
  if (unit == MetricUnit::Time && v.now.value >= 1 && size >= 0.005) return fmt::format("{:.2f} s", size);
  return figure_text(unit, size);
}

std::string margin_text(const Verdict& v, MetricUnit unit) {
  if (v.margin < 0) {
    const char* word = v.bound.sense == Sense::AtMost ? "over by" : "short by";
    return fmt::format("{}{} {}", v.at_risk ? "at risk: " : "", word, distance(v, unit));
  }
  if (v.margin == 0) return "nothing left";
  return distance(v, unit) + " left";
}

/// Subject and verb: "stages 1-7 need 63.0-63.6 GiB".
std::string subject(const Verdict& v, const MetricRow& row, const Plan& now) {
  const bool peak = v.limit.metric == Metric::MemoryPeak || v.limit.metric == Metric::MemoryFit;
  if (!peak) return fmt::format("{} is {}", row.name, now_text(v, row.unit));
  const std::string stages = worst_stages(now.best);
  return fmt::format("{} {} {}", stages, stages.starts_with("stages") ? "need" : "needs", now_text(v, row.unit));
}

std::string message(const Verdict& v, const MetricRow& row, const Plan& now, const EarlierPlan* baseline) {
  const Texts texts = distinct_texts(row.unit, v.counted, v.bound.value);
  const bool rounded_away = !v.limit.since_baseline && texts.a != figure_text(row.unit, v.counted);
  if (v.limit.metric == Metric::MemoryFit)
    return fmt::format("{}; {} has {}", rounded_away ? "the job needs " + texts.a : subject(v, row, now),
                       fullest_gpu(now), rounded_away ? texts.b : memory_text(now.best.capacity));
  if (v.bound.text.starts_with(kNodeHas))
    return fmt::format("the ranks of a node keep {} in its memory; {}", now_text(v, row.unit), v.bound.text);
  if (rounded_away) return fmt::format("{} is {}, the budget allows {} ({})", row.name, texts.a, v.bound.text, texts.b);
  if (!v.limit.since_baseline) return fmt::format("{}, the budget allows {}", subject(v, row, now), v.bound.text);
  const Texts moved = distinct_texts(row.unit, v.before.value_or(0), v.now.value);
  return fmt::format("{} changed by {} since {}: {} -> {}; the budget allows {}", row.name,
                     moved_text(v, row.unit, v.bound.relative), baseline->file, moved.a, moved.b, v.bound.text);
}

bool about_memory(Metric metric) { return metric_row(metric).unit == MetricUnit::Memory; }

/// "since main.json: 54.5 GiB -> 63.0 GiB (+8.5 GiB), all of it activations".
std::string since(const Verdict& v, const MetricRow& row, const Plan& now, const EarlierPlan& baseline) {
  const Texts texts = distinct_texts(row.unit, *v.before, v.now.value);
  std::string out = fmt::format("since {}: {} -> {} ({})", baseline.file, texts.a, texts.b,
                                change_text(row.unit, v.now.value - *v.before));
  if (v.limit.metric != Metric::MemoryPeak && v.limit.metric != Metric::MemoryFit) return out;
  const auto moved = memory_change(now.best, baseline.best);
  if (moved.empty()) return out;
  const bool all = std::fabs(static_cast<double>(moved.front().second.value) - (v.now.value - *v.before)) < 0.05 * kGiB;
  return out + (all ? ", all of it " + moved.front().first : ": " + categories_text(moved));
}

/// Which state a limit was broken in, and why: facts and causes of a finding that is no pass.
void explain(Finding& finding, const ResolvedJob& job, const Plan& now, const EarlierPlan* baseline,
             const std::vector<Restoration>& restored) {
  const Verdict& v = *finding.verdict;
  const MetricRow& row = metric_row(v.limit.metric);
  finding.message = message(v, row, now, baseline);
  if (v.at_risk)
    finding.facts.push_back(fmt::format("at risk: predicted between {} and {}; `--risk at-risk` makes this a warning",
                                        figure_text(row.unit, v.now.low), figure_text(row.unit, v.now.high)));
  if (about_memory(v.limit.metric) && !now.best.peak_instant.empty() && v.limit.metric <= Metric::MemoryPeak)
    finding.facts.push_back(
        fmt::format("the peak is in stage {}, at the {}", now.best.peak_stage, now.best.peak_instant));
  if (baseline == nullptr || !v.before) return;
  if (*v.before == v.now.value)
    finding.facts.push_back(fmt::format("the same as in {}", baseline->file));
  else
    finding.facts.push_back(since(v, row, now, *baseline));
  for (Cause& cause : find_causes(job, now, *baseline, v.limit.metric, restored)) {
    if (finding.causes.size() >= 4) break;
    const bool helped = cause.known && (row.more_is_better ? cause.effect >= 0 : cause.effect <= 0);
    if (!helped) finding.causes.push_back(std::move(cause));
  }
}

/// A limit that would just hold, as a budget writes it: two digits more than needed are none.
std::string loosened(const Verdict& v, MetricUnit unit) {
  const bool up = v.bound.sense == Sense::AtMost;
  const auto round_to = [&](double value, double step) {
    return (up ? std::ceil(value / step) : std::floor(value / step)) * step;
  };
  if (unit == MetricUnit::Memory && v.counted >= kGiB)
    return fmt::format("{} {:.0f} GiB", up ? "at most" : "at least", round_to(v.counted, kGiB) / kGiB);
  if (unit == MetricUnit::Time && v.counted >= 0.1)
    return fmt::format("{} {:.1f} s", up ? "at most" : "at least", round_to(v.counted, 0.1));
  if (unit == MetricUnit::Ratio)
    return fmt::format("{} {:.0f} %", up ? "at most" : "at least", round_to(100 * v.counted, 1));
  return {};
}

/// The limit that would just hold.
void allow(Finding& finding) {
  const Verdict& v = *finding.verdict;
  if (finding.state != State::Fail || v.limit.since_baseline || v.limit.metric == Metric::MemoryFit ||
      v.bound.text.starts_with(kNodeHas))
    return;
  if (const std::string text = loosened(v, finding.unit); !text.empty())
    finding.allow = fmt::format("{}: {}", metric_row(v.limit.metric).name, text);
}

/// A verdict as reports show it, not yet explained.
Finding finding_of(const ResolvedJob& job, Verdict verdict) {
  const MetricRow& row = metric_row(verdict.limit.metric);
  Finding finding{.rule = rule_id(verdict.limit), .state = verdict.state, .at_risk = verdict.at_risk};
  finding.unit = row.unit;
  if (verdict.limit.place.line == 0) {
    const auto gpus = job.budget->words.find("gpus");
    verdict.limit.place = gpus == job.budget->words.end() ? job.budget->place : gpus->second.place;
  }
  finding.place = verdict.limit.place;
  finding.now = verdict.limit.since_baseline ? moved_text(verdict, row.unit, verdict.bound.relative)
                                             : now_text(verdict, row.unit);
  finding.limit = limit_text(verdict, job.problem);
  finding.margin = margin_text(verdict, row.unit);
  finding.change = moved_text(verdict, row.unit, false);
  finding.verdict = std::move(verdict);
  return finding;
}

/// Why a run breaks a limit: what it showed, beside what was predicted, and what would tell more.
void explain_run(Finding& finding, const Plan& now, const MeasuredJob& measured) {
  const Verdict& v = *finding.verdict;
  const MetricRow& row = metric_row(v.limit.metric);
  if (about_memory(v.limit.metric) && measured.out_of_memory) {
    const OutOfMemory& oom = *measured.out_of_memory;
    finding.message = fmt::format("the run was out of memory at {}", oom.where);
    if (oom.capacity > RealBytes(0))
      finding.facts.push_back(fmt::format("{} asked for, {} free of {}", memory_text(round_bytes(oom.asked)),
                                          memory_text(round_bytes(oom.free)), memory_text(round_bytes(oom.capacity))));
  } else {
    const Texts texts = distinct_texts(row.unit, v.counted, v.bound.value);
    const std::string allowed = v.limit.metric == Metric::MemoryFit
                                    ? fmt::format("{} has {}", now.problem.cluster.gpu.name, texts.b)
                                    : fmt::format("the budget allows {}", v.bound.text);
    finding.message = fmt::format("{} was {} in {}, {}", row.name, texts.a, measured.files, allowed);
  }
  if (about_memory(v.limit.metric) && measured.unseen > RealBytes(0))
    finding.facts.push_back(fmt::format("{} of it {}, the rest predicted: what the allocator does not see",
                                        memory_text(round_bytes(measured.peak - measured.unseen)), measured.peak_kind));
  const double predicted = finding.predicted.value_or(0);
  finding.facts.push_back(
      fmt::format("predicted {}{}", figure_text(row.unit, predicted),
                  predicted > 0 ? ": measured " + signed_percent(v.now.value / predicted - 1) : ""));
  finding.help.push_back(fmt::format("`plan diagnose --log {}` with the same job says what makes the difference",
                                     shell_quoted(measured.files.substr(0, measured.files.find(", ")))));
}

}  // namespace

std::vector<Finding> find_findings(const ResolvedJob& job, const Plan& now, const EarlierPlan* baseline,
                                   const std::vector<Restoration>& restored) {
  Baseline before;
  if (baseline != nullptr) before = {baseline->best, earlier_gpus(*baseline)};
  Budget budget = job.budget->budget;
  budget.run = job.run;
  if (baseline == nullptr) std::erase_if(budget.limits, [](const Limit& limit) { return limit.since_baseline; });
  std::vector<Finding> findings;
  for (Verdict& verdict :
       judge_all(budget, now.best, {job.problem.gpus, now.problem.gpus}, baseline == nullptr ? nullptr : &before)) {
    Finding finding = finding_of(job, std::move(verdict));
    if (finding.state != State::Pass) explain(finding, job, now, baseline, restored);
    allow(finding);
    findings.push_back(std::move(finding));
  }
  return findings;
}

void judge_measured(const ResolvedJob& job, const Plan& now, const MeasuredJob& measured,
                    std::vector<Finding>& findings) {
  const Estimate run = as_measured(now.best, measured);
  for (Finding& finding : findings) {
    if (!finding.verdict || finding.verdict->limit.since_baseline) continue;
    Limit limit = finding.verdict->limit;
    if (!shows(measured, limit.metric)) continue;
    const double predicted = finding.verdict->now.value;
    const bool just_ran =
        limit.metric == Metric::MemoryFit && !(measured.peak > RealBytes(0)) && !measured.out_of_memory;
    if (limit.metric == Metric::MemoryFit && limit.fail) limit.fail->value = static_cast<double>(run.capacity.value);
    finding = finding_of(job, judge(limit, measure(limit.metric, run, {job.problem.gpus, now.problem.gpus}, job.run),
                                    {}, job.budget->budget.risk));
    finding.measured = true, finding.predicted = predicted;
    if (just_ran) {  // it did not run out, and nothing says how near it came
      finding.verdict.reset(), finding.predicted.reset();
      finding.state = State::Pass, finding.now = "it ran", finding.margin.clear();
      continue;
    }
    finding.change = fmt::format("predicted {}", figure_text(finding.unit, predicted));
    if (finding.state != State::Pass) explain_run(finding, now, measured);
    allow(finding);
  }
}

}  // namespace plan
