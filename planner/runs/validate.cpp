// Predicted against measured. Tested by tests/planner/runs_test.cpp.
#include "planner/runs/validate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/answer/estimate.hpp"
#include "planner/estimate/learnt.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/memory/memory.hpp"
#include "planner/runs/run_rates.hpp"

namespace plan {
namespace {

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// The peak that the row's kind of figure shows.
std::optional<double> predicted_memory(const std::string& kind, const Estimate& estimate) {
  const auto worst = [&](Bytes MemoryKinds::*reading) {
    std::int64_t most = 0;
    for (const StageMemory& stage : estimate.stages) most = std::max(most, (memory_kinds(stage).*reading).value);
    return static_cast<double>(most);
  };
  if (kind == "allocated" || kind == "printed") return worst(&MemoryKinds::allocated);
  if (kind == "allocated-last-rank") return static_cast<double>(memory_kinds(estimate.stages.back()).allocated.value);
  if (kind == "reserved") return worst(&MemoryKinds::reserved);
  if (kind == "device") return worst(&MemoryKinds::device);
  return std::nullopt;  // unstated
}

/// Why a run is not scored, whatever it says; empty if it is.
std::string not_scored(const Run& run, const ValidateOptions& options) {
  if (run.status == "duplicate") return "the same measurement as another row";
  if (run.status.empty()) return "no status: write `ok` in that column, or `oom` of a run that ran out of memory";
  if (run.status != "ok" && run.status != "oom") return "status is neither ok nor oom";
  if (run.quality != "C" || options.rough) return {};
  std::string open(run.fact("unstated"));
  if (open.empty()) return "quality C";
  std::replace(open.begin(), open.end(), '+', ' ');
  return "quality C: several layouts answer to it, unstated are " + open;
}

ScoredRun score_run(const Run& run, const Catalogue& catalogue, const ValidateOptions& options) {
  ScoredRun scored{.run = run};
  if (scored.reason = not_scored(run, options); !scored.reason.empty()) return scored;
  const Result<RunProblem> built = problem_of(run, catalogue);
  if (!built) return scored.reason = built.error().front().message, scored;
  const Estimate estimate = plan::estimate(built->problem, built->layout);

  scored.remarks = built->remarks;
  scored.terms = estimate.terms, scored.layout = built->layout;
  scored.fitted = run.status == "ok";
  scored.fits = estimate.peak <= estimate.capacity;
  if (run.status == "oom") return scored;
  // Functional tests run small models in deterministic mode: their times say nothing.
  if (!run.task.starts_with("functional-test"))
    if (const auto measured = measured_step_time(run, *built); measured && *measured > 0) {
      const Interval interval = step_interval(built->problem, estimate, built->guessed);
      const double step = estimate.step_time.value;
      scored.step_time = {*measured, step, step * interval.low, step * interval.high};
      const Compared& of = *scored.step_time;
      if (std::string far = far_step(of.measured, of.predicted, of.high); !far.empty())
        scored.remarks.push_back(std::move(far));
    }
  if (run.peak_memory_gib && *run.peak_memory_gib > 0)
    if (const auto predicted = predicted_memory(run.memory_kind, estimate)) {
      const Interval interval = memory_interval(built->problem, run.memory_kind);
      scored.memory = {*run.peak_memory_gib * kGiB, *predicted, *predicted * interval.low, *predicted * interval.high};
    }
  if (run.peak_memory_gib && !scored.memory && run.memory_kind != "unstated")
    scored.remarks.push_back(
        fmt::format("its memory is not compared: memory_kind `{}` is none of plan-runs(5)'s", run.memory_kind));
  if (!scored.step_time && !scored.memory)
    scored.reason = run.flops_convention.empty() && (run.mfu.value_or(0) > 0 || run.tflops_per_gpu.value_or(0) > 0)
                        ? "its rate of FLOPs is no step time without a `flops_convention`"
                        : "the row states no step time and no memory that can be compared";
  return scored;
}

FitScore fit_score(const std::vector<const ScoredRun*>& runs) {
  int total[2] = {0, 0}, right[2] = {0, 0};
  for (const ScoredRun* run : runs)
    if (run->fits) ++total[run->fitted], right[run->fitted] += *run->fits == run->fitted;
  if (total[0] == 0 || total[1] == 0) return {};  // no verdicts to tell apart
  return {total[0] + total[1], right[0] + right[1],
          (static_cast<double>(right[0]) / total[0] + static_cast<double>(right[1]) / total[1]) / 2};
}

double kendall_tau(const std::vector<Compared>& group) {
  int agree = 0, pairs = 0;
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t j = i + 1; j < group.size(); ++j, ++pairs) {
      const double order = (group[i].measured - group[j].measured) * (group[i].predicted - group[j].predicted);
      agree += order > 0 ? 1 : order < 0 ? -1 : 0;
    }
  return pairs == 0 ? 0 : static_cast<double>(agree) / pairs;
}

/// Timed runs of one job, which differ in their layouts.
struct RankedJob {
  std::vector<Compared> times{};
  std::vector<Layout> layouts{};
  bool has_choice() const {
    return std::adjacent_find(layouts.begin(), layouts.end(), std::not_equal_to<>()) != layouts.end();
  }
};

/// A job is the same model, sequence and batch on as many GPUs, under the same software and kernels. Where all its runs
/// share a layout there is none to choose.
RankingScore ranking_score(const std::vector<const ScoredRun*>& runs) {
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, std::string, std::string>, RankedJob> jobs;
  for (const ScoredRun* scored : runs) {
    if (!scored->step_time) continue;
    const Run& run = scored->run;
    RankedJob& job = jobs[{run.model, run.seq.value_or(0), run.gpus.value_or(0), run.global_batch.value_or(0),
                           std::string(run.fact("release")), run.attention}];
    job.times.push_back(*scored->step_time), job.layouts.push_back(scored->layout);
  }
  std::vector<double> regrets, taus;
  for (const auto& [key, job] : jobs) {
    if (!job.has_choice()) continue;
    const std::vector<Compared>& group = job.times;
    const auto chosen = std::min_element(
        group.begin(), group.end(), [](const Compared& a, const Compared& b) { return a.predicted < b.predicted; });
    const auto fastest = std::min_element(group.begin(), group.end(),
                                          [](const Compared& a, const Compared& b) { return a.measured < b.measured; });
    regrets.push_back(chosen->measured / fastest->measured - 1);
    taus.push_back(kendall_tau(group));
  }
  return {static_cast<int>(regrets.size()), quantile(regrets, 0.5), quantile(regrets, 0.9), mean(taus)};
}

SuiteScore suite_score(const std::vector<const ScoredRun*>& runs) {
  SuiteScore score;
  std::vector<Compared> times;
  std::map<std::string, std::vector<Compared>> memories;
  std::vector<double> time_hits, memory_hits;
  for (const ScoredRun* run : runs) {
    if (run->step_time) times.push_back(*run->step_time), time_hits.push_back(run->step_time->covered());
    if (run->memory)
      memories[run->run.memory_kind].push_back(*run->memory), memory_hits.push_back(run->memory->covered());
  }
  score.step_time = score_errors(times);
  for (const auto& [kind, pairs] : memories) score.memory[kind] = score_errors(pairs);
  score.fit = fit_score(runs);
  score.ranking = ranking_score(runs);
  score.coverage = {mean(time_hits), mean(memory_hits), static_cast<int>(time_hits.size()),
                    static_cast<int>(memory_hits.size())};
  return score;
}

/// Averages error scores, every suite that has one weighing the same.
ErrorScore macro(const std::vector<ErrorScore>& scores) {
  ErrorScore sum;
  int suites = 0;
  for (const ErrorScore& score : scores) {
    if (score.n == 0) continue;
    ++suites, sum.n += score.n;
    sum.median_ape += score.median_ape, sum.mape += score.mape, sum.p90_ape += score.p90_ape, sum.bias += score.bias;
  }
  if (suites == 0) return sum;
  sum.median_ape /= suites, sum.mape /= suites, sum.p90_ape /= suites, sum.bias /= suites;
  return sum;
}

SuiteScore overall_score(const std::map<std::string, SuiteScore>& suites) {
  SuiteScore all;
  std::vector<ErrorScore> times;
  std::map<std::string, std::vector<ErrorScore>> memories;
  std::vector<double> accuracy, regret, regret90, tau, time_cover, memory_cover;
  for (const auto& [name, suite] : suites) {
    times.push_back(suite.step_time);
    for (const auto& [kind, score] : suite.memory) memories[kind].push_back(score);
    if (suite.fit.n > 0)
      all.fit.n += suite.fit.n, all.fit.correct += suite.fit.correct, accuracy.push_back(suite.fit.balanced_accuracy);
    if (suite.ranking.groups > 0) {
      all.ranking.groups += suite.ranking.groups;
      regret.push_back(suite.ranking.median_regret), regret90.push_back(suite.ranking.p90_regret),
          tau.push_back(suite.ranking.kendall_tau);
    }
    if (suite.coverage.step_times > 0)
      time_cover.push_back(suite.coverage.step_time), all.coverage.step_times += suite.coverage.step_times;
    if (suite.coverage.memories > 0)
      memory_cover.push_back(suite.coverage.memory), all.coverage.memories += suite.coverage.memories;
  }
  all.step_time = macro(times);
  for (const auto& [kind, scores] : memories) all.memory[kind] = macro(scores);
  all.fit.balanced_accuracy = mean(accuracy);
  all.ranking.median_regret = mean(regret), all.ranking.p90_regret = mean(regret90),
  all.ranking.kendall_tau = mean(tau);
  all.coverage.step_time = mean(time_cover), all.coverage.memory = mean(memory_cover);
  return all;
}

}  // namespace

std::optional<double> memory_reading(const std::string& kind, const Estimate& estimate) {
  return predicted_memory(kind, estimate);
}

ErrorScore score_errors(const std::vector<Compared>& pairs) {
  std::vector<double> absolute, signed_errors;
  for (const Compared& pair : pairs) absolute.push_back(std::abs(pair.error())), signed_errors.push_back(pair.error());
  return {static_cast<int>(pairs.size()), quantile(absolute, 0.5), mean(absolute), quantile(absolute, 0.9),
          mean(signed_errors)};
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const std::size_t low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

Validation validate(std::span<const Run> runs, const Catalogue& catalogue, const ValidateOptions& options) {
  Validation result;
  for (const Run& run : runs) result.runs.push_back(score_run(run, catalogue, options));
  std::map<std::string, std::vector<const ScoredRun*>> by_suite;
  for (const ScoredRun& run : result.runs) {
    if (!run.reason.empty()) continue;
    ++result.scored;
    by_suite[run.run.suite].push_back(&run);
  }
  for (const auto& [name, members] : by_suite) result.suites[name] = suite_score(members);
  result.overall = overall_score(result.suites);
  return result;
}

}  // namespace plan
