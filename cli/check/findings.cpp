// Verdicts in words: one finding a limit, the same words in every format. Tested by tests/cli/check_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/check/check.hpp"
#include "cli/check/limit_text.hpp"
#include "cli/terminal/format.hpp"

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
  return fmt::format("{:+.1f} %", 100 * (v.now.value - *v.before) / *v.before);
}

std::string limit_text(const Verdict& v, const Problem& problem) {
  if (v.limit.metric == Metric::MemoryFit) return fmt::format("GPU has {}", memory_text(problem.cluster.gpu.memory));
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
                       now.problem.cluster.gpu.name, rounded_away ? texts.b : memory_text(now.best.capacity));
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

}  // namespace

std::vector<Finding> find_findings(const ResolvedJob& job, const Plan& now, const EarlierPlan* baseline,
                                   const std::vector<Restoration>& restored) {
  Baseline before;
  if (baseline != nullptr) before = {baseline->best, earlier_gpus(*baseline)};
  Budget budget = job.budget->budget;
  budget.run = job.run;
  if (baseline == nullptr) std::erase_if(budget.limits, [](const Limit& limit) { return limit.since_baseline; });
  std::vector<Finding> findings;
  for (Verdict& verdict : judge_all(budget, now.best, job.problem.gpus, baseline == nullptr ? nullptr : &before)) {
    const MetricRow& row = metric_row(verdict.limit.metric);
    Finding finding{
        .rule = rule_id(verdict.limit), .state = verdict.state, .at_risk = verdict.at_risk, .unit = row.unit};
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
    if (finding.state != State::Pass) explain(finding, job, now, baseline, restored);
    const Verdict& v = *finding.verdict;
    if (finding.state == State::Fail && !v.limit.since_baseline && v.limit.metric != Metric::MemoryFit)
      if (const std::string text = loosened(v, row.unit); !text.empty())
        finding.allow = fmt::format("{}: {}", row.name, text);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace plan
