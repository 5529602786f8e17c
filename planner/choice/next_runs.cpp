// Which short runs would tell most about the layouts that a plan chooses among: Gaussian conditioning (kriging) on the
// errors of predicted steps, and a greedy choice of what to measure.
//
// Assumption: logarithms of measured over predicted steps are jointly normal. What two layouts of one job share cancels
// between them, which is what paired_spread was fitted to (4,130 pairs of published runs); a run on fewer replicas
// relates to the whole job as any other layout does. Source: Rasmussen and Williams 2006, Gaussian Processes for
// Machine Learning, equations 2.25 and 2.26. Tested by tests/planner/next_runs_test.cpp.
#include "planner/choice/next_runs.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/answer/normal.hpp"
#include "planner/estimate/claims.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostRuns = 3;
constexpr double kWorthIt = 0.1;  ///< share of what is left to know that a run has to tell
constexpr int kWarmUp = 5, kCounted = 15;

std::vector<double> shares(const Terms& terms) {
  std::vector<double> all;
  const double whole = terms.total().value;
  for (const auto& [name, term] : kTimeTerms) all.push_back(whole > 0 ? (terms.*term).value / whole : 0);
  return all;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The same layout on 1/`pieces` of its replicas, each with as many sequences as before; nothing where that is no job.
/// Its layers are where a launch puts them by default, which is what a row of runs says of them.
std::optional<NextRun> piece(const Problem& problem, const Layout& layout, int pieces) {
  NextRun run{problem, {}, kWarmUp + kCounted, 0, 0, pieces == 1, 0, {}};
  Layout part = layout;
  if (layout.dp % pieces != 0 || problem.training.global_batch % pieces != 0 || problem.gpus % pieces != 0)
    return std::nullopt;
  part.dp = layout.dp / pieces;
  if (!problem.fixed.chunk_layers) place_layers(problem, part);
  run.problem.gpus = problem.gpus / pieces;
  run.problem.training.global_batch = problem.training.global_batch / pieces;
  run.problem.fixed = {};
  if (broken_rule(run.problem, part) >= 0) return std::nullopt;
  run.estimate = estimate(run.problem, part);
  if (run.estimate.fits != Fits::Yes) return std::nullopt;
  run.minutes = std::max(1.0, std::ceil(run.steps * run.estimate.step_time.value / 60));
  return run;
}

std::vector<NextRun> candidates(const Problem& problem, const std::vector<Estimate>& layouts) {
  std::vector<NextRun> all;
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (int pieces = 1; pieces <= layouts[i].layout.dp; pieces *= 2)
      if (std::optional<NextRun> run = piece(problem, layouts[i].layout, pieces)) {
        run->of_layout = static_cast<int>(i);
        all.push_back(std::move(*run));
      }
  return all;
}

Beliefs after(Beliefs beliefs, const NextRun& run) {
  beliefs.expect(run.estimate.terms, kRunNoise, run.whole ? run.of_layout : -1);
  return beliefs;
}

}  // namespace

Interval Doubt::interval() const {
  return {std::exp(mean - kNinetyPercent * sd), std::exp(mean + kNinetyPercent * sd)};
}

Beliefs::Beliefs(const Problem& problem, const std::vector<Estimate>& layouts) {
  const Estimate& reference = layouts.front();
  const PairedSpread paired = paired_parts(time_coverage(problem, reference).share);
  const double low = std::log(reference.step_time_low / reference.step_time),
               high = std::log(reference.step_time_high / reference.step_time);
  const double whole = (high - low) / 2 / kNinetyPercent;
  own_ = std::min(paired.same / std::sqrt(2.0), whole / 2);
  reference_ = shares(reference.terms);
  for (const Estimate& layout : layouts) terms_.push_back(layout.terms), steps_.push_back(layout.step_time.value);
  const std::size_t size = 1 + std::size(kTimeTerms) + layouts.size();
  mean_.assign(size, 0.0);
  mean_[0] = (low + high) / 2;
  covariance_.assign(size, Vector(size, 0.0));
  for (std::size_t i = 0; i < size; ++i) {
    const double sd = i == 0                       ? std::sqrt(whole * whole - own_ * own_)
                      : i <= std::size(kTimeTerms) ? paired.different * std::sqrt(2.0)
                                                   : own_;
    covariance_[i][i] = sd * sd;
  }
  first_ = variance(features(terms_[0], 0));
  for (std::size_t i = 1; i < terms_.size(); ++i) {
    const double variance = variance_between(0, static_cast<int>(i));
    const double apart = std::log(steps_[i] / steps_[0]);
    const bool undecided = std::fabs(apart) < kNinetyPercent * std::sqrt(variance);
    before_.push_back(undecided && variance > 0 ? std::optional(variance) : std::nullopt);
  }
}

Beliefs::Vector Beliefs::features(const Terms& terms, int layout) const {
  Vector out(mean_.size(), 0.0);
  const Vector own = shares(terms);
  out[0] = 1;
  for (std::size_t i = 0; i < std::size(kTimeTerms); ++i) out[1 + i] = own[i] - reference_[i];
  if (layout >= 0) out[1 + std::size(kTimeTerms) + static_cast<std::size_t>(layout)] = 1;
  return out;
}

double Beliefs::variance(const Vector& features) const {
  double sum = 0;
  for (std::size_t i = 0; i < features.size(); ++i) sum += features[i] * dot(covariance_[i], features);
  return std::max(sum, 0.0);
}

void Beliefs::observe(const Terms& terms, double log_ratio, double noise, int layout) {
  condition(terms, log_ratio, noise, layout);
}

void Beliefs::expect(const Terms& terms, double noise, int layout) { condition(terms, std::nullopt, noise, layout); }

void Beliefs::condition(const Terms& terms, std::optional<double> log_ratio, double noise, int layout) {
  const Vector at = features(terms, layout);
  const double unseen = layout >= 0 ? 0 : own_;  // of a layout that nobody asks for
  const double total = variance(at) + noise * noise + unseen * unseen;
  Vector gain;
  for (const Vector& row : covariance_) gain.push_back(dot(row, at));
  const double surprise = log_ratio ? *log_ratio - dot(mean_, at) : 0;
  for (std::size_t i = 0; i < gain.size(); ++i) {
    mean_[i] += gain[i] * surprise / total;
    for (std::size_t j = 0; j < gain.size(); ++j) covariance_[i][j] -= gain[i] * gain[j] / total;
  }
}

Doubt Beliefs::of(int layout) const {
  const Vector at = features(terms_[static_cast<std::size_t>(layout)], layout);
  return {dot(mean_, at), std::sqrt(variance(at))};
}

double Beliefs::variance_between(int layout, int other) const {
  Vector at = features(terms_[static_cast<std::size_t>(other)], other);
  const Vector from = features(terms_[static_cast<std::size_t>(layout)], layout);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] -= from[i];
  return variance(at);
}

Doubt Beliefs::between(int layout, int other) const {
  const double apart = std::log(steps_[static_cast<std::size_t>(other)] / steps_[static_cast<std::size_t>(layout)]);
  return {apart + of(other).mean - of(layout).mean, std::sqrt(variance_between(layout, other))};
}

double Beliefs::open() const {
  double sum = variance(features(terms_[0], 0)) / first_;
  int counted = 1;
  for (std::size_t i = 0; i < before_.size(); ++i)
    if (before_[i]) sum += variance_between(0, static_cast<int>(i) + 1) / *before_[i], ++counted;
  return sum / counted;
}

std::vector<NextRun> next_runs(const Problem& problem, const std::vector<Estimate>& layouts, Beliefs beliefs) {
  const std::vector<NextRun> all = candidates(problem, layouts);
  std::vector<NextRun> chosen;
  while (chosen.size() < kMostRuns) {
    const double open = beliefs.open();
    std::optional<NextRun> best;
    double most = 0;
    for (const NextRun& run : all) {
      const Beliefs then = after(beliefs, run);
      const double learnt = open - then.open(), per_hour = learnt / run.gpu_hours();
      if (learnt < kWorthIt * open || per_hour <= most) continue;
      most = per_hour, best = run;
      best->open = then.open(), best->reference = then.of(0);
    }
    if (!best) break;
    beliefs = after(std::move(beliefs), *best);
    chosen.push_back(std::move(*best));
  }
  return chosen;
}

}  // namespace plan
