// Fits a cluster's constants to its own runs. Tested by tests/cli/calibration_test.cpp.
#include "planner/runs/calibrate.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <utility>

#include "formulas/text.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/answer/normal.hpp"
#include "planner/estimate/learnt.hpp"
#include "planner/runs/diagnosis.hpp"
#include "planner/runs/run_rates.hpp"

namespace plan {
namespace {

constexpr Eigen::Index kConstants = std::size(kCalibrationFields);
constexpr int kFewestRuns = 3;
/// Fewer say too little of how far the next one may lie. In units of what is said, Student's quantile of nine in ten
/// has a relative error of 1.3 % with five and of 7 % with three.
constexpr std::size_t kRunsToLearnFrom = 5;
constexpr int kRunsForFifths = 25;  ///< fewer are held out one at a time
constexpr int kScalePasses = 2, kIterations = 25;
/// What is known of the residuals before the first run: one run elsewhere differs by 4 %, as firmly as ten runs tell.
constexpr double kPriorResidual = 0.04, kPriorRuns = 10;
/// Residuals beyond this many standard deviations count linearly.
constexpr double kSoft = 2;

using Vector = Eigen::VectorXd;

/// A run that can be fitted, ready to be predicted under any constants.
struct Sample {
  Problem problem{};
  Layout layout{};
  double step_time = 0;  ///< measured; 0: not stated
  double memory = 0;     ///< measured bytes; 0: none that shows the allocator's reserve
  std::string memory_kind{};
  std::array<std::optional<double>, kObservables> parts{};  ///< measured seconds of the step's parts, of a trace
};
using Samples = std::vector<const Sample*>;

/// Constants as logarithms of their ratio to the start.
Calibration constants_at(const Calibration& start, const Vector& logs) {
  Calibration at = start;
  for (Eigen::Index i = 0; i < kConstants; ++i) {
    const CalibrationField& field = kCalibrationFields[i];
    at.*field.value = std::clamp(start.*field.value * std::exp(logs[i]), field.least, field.most);
  }
  return at;
}

struct Predicted {
  double step_time = 0, memory = 0;
  StepParts parts{};
};

bool traced(const Sample& sample) {
  return std::any_of(sample.parts.begin(), sample.parts.end(), [](const auto& part) { return part.has_value(); });
}

Predicted predict(const Sample& sample, const Calibration& calibration) {
  Problem problem = sample.problem;
  problem.cluster.calibration = calibration;
  const Estimate estimate = plan::estimate(problem, sample.layout);
  return {estimate.step_time.value, sample.memory > 0 ? *memory_reading(sample.memory_kind, estimate) : 0,
          traced(sample) ? parts_of(problem, estimate) : StepParts{}};
}

/// ln(predicted / measured) of every figure of every sample; of parts of a step what they are off by, as a share of it.
Vector residuals(const Samples& samples, const Calibration& calibration) {
  std::vector<double> out;
  for (const Sample* sample : samples) {
    const Predicted predicted = predict(*sample, calibration);
    if (sample->step_time > 0) out.push_back(std::log(predicted.step_time / sample->step_time));
    if (sample->memory > 0) out.push_back(std::log(predicted.memory / sample->memory));
    for (std::size_t i = 0; i < sample->parts.size(); ++i)
      if (sample->parts[i]) out.push_back((predicted.parts[i] - *sample->parts[i]) / sample->step_time);
  }
  return Eigen::Map<const Vector>(out.data(), static_cast<Eigen::Index>(out.size()));
}

/// Weight of a residual under the soft-L1 loss, in units of the residuals' scale.
Vector weights(const Vector& r, double scale) {
  return r.unaryExpr([scale](double x) { return 1 / (scale * scale * std::hypot(1.0, x / (kSoft * scale))); });
}

Vector prior_precision() {
  Vector precision(kConstants);
  for (Eigen::Index i = 0; i < kConstants; ++i)
    precision[i] = 1 / (kCalibrationFields[i].spread * kCalibrationFields[i].spread);
  return precision;
}

double cost(const Vector& r, double scale, const Vector& logs) {
  const double c = kSoft * scale;
  double sum = logs.cwiseAbs2().dot(prior_precision());
  for (const double x : r) sum += 2 * kSoft * kSoft * (std::hypot(1.0, x / c) - 1);
  return sum;
}

Eigen::MatrixXd jacobian(const Samples& samples, const Calibration& start, const Vector& logs, const Vector& at) {
  constexpr double kStep = 1e-3;
  Eigen::MatrixXd j(at.size(), kConstants);
  for (Eigen::Index i = 0; i < kConstants; ++i) {
    Vector moved = logs;
    moved[i] += kStep;
    j.col(i) = (residuals(samples, constants_at(start, moved)) - at) / kStep;
  }
  return j;
}

struct Fit {
  Vector logs{};
  Vector spread{};  ///< standard deviations of the logarithms
};

/// Damped least squares at a given scale of the residuals.
Fit descend(const Samples& samples, const Calibration& start, Vector logs, double scale) {
  const Vector prior = prior_precision();
  Vector r = residuals(samples, constants_at(start, logs));
  double best = cost(r, scale, logs), damping = 1e-3;
  Eigen::MatrixXd normal;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    const Eigen::MatrixXd j = jacobian(samples, start, logs, r);
    const Vector w = weights(r, scale);
    normal = j.transpose() * w.asDiagonal() * j;
    normal.diagonal() += prior;
    const Vector gradient = j.transpose() * w.asDiagonal() * r + prior.cwiseProduct(logs);
    const double before = best;
    for (; damping < 1e6; damping *= 5) {
      Eigen::MatrixXd damped = normal;
      damped.diagonal() *= 1 + damping;
      const Vector next = logs - damped.ldlt().solve(gradient).cwiseMax(-0.5).cwiseMin(0.5);
      const Vector next_r = residuals(samples, constants_at(start, next));
      const double next_cost = next_r.allFinite() ? cost(next_r, scale, next) : HUGE_VAL;
      if (next_cost >= best) continue;
      logs = next, r = next_r, best = next_cost, damping = std::max(damping / 5, 1e-9);
      break;
    }
    if (before - best < 1e-6 * before) break;
  }
  return {logs, normal.inverse().diagonal().cwiseSqrt()};
}

/// Scale of the residuals from the runs and what is known before them.
double scale_of(const Vector& r, double scale) {
  const double inside = weights(r, scale).dot(r.cwiseAbs2()) * scale * scale;
  return std::sqrt((kPriorRuns * kPriorResidual * kPriorResidual + inside) /
                   (kPriorRuns + static_cast<double>(r.size())));
}

Fit fit(const Samples& samples, const Calibration& start) {
  Fit found{Vector::Zero(kConstants), {}};
  double scale = kPriorResidual;
  for (int pass = 0; pass < kScalePasses; ++pass) {
    found = descend(samples, start, found.logs, scale);
    scale = scale_of(residuals(samples, constants_at(start, found.logs)), scale);
  }
  return descend(samples, start, found.logs, scale);
}

/// The readings in which the allocator's reserve shows.
bool shows_reserve(const std::string& kind) { return kind == "reserved" || kind == "device"; }

/// Seconds of the parts of a run's step, as its notes state them: "{compute_s=1.25 tp_s=0.1}". What is none is an
/// error.
Result<void> read_parts(const Run& run, Sample& sample) {
  for (std::size_t i = 1; i < kObservableNames.size(); ++i) {
    const std::string key = std::string(kObservableNames[i]) + "_s";
    const std::string_view text = run.fact(key);
    if (text.empty()) continue;
    const std::optional<double> seconds = as_number<double>(text);
    if (!seconds || !(*seconds >= 0 && *seconds <= sample.step_time))
      return fail(Error{"bad_fact", key + " in its notes is no part of its step: " + std::string(text), {}, {}});
    sample.parts[i] = *seconds;
  }
  return {};
}

/// Samples of the runs that can be fitted; the others go to `skipped` with their reasons.
std::vector<Sample> samples_of(std::span<const Run> runs, const Catalogue& catalogue, const ValidateOptions& options,
                               std::vector<ScoredRun>& skipped) {
  std::vector<Sample> samples;
  for (ScoredRun& scored : validate(runs, catalogue, options).runs) {
    Sample sample;
    if (scored.step_time) sample.step_time = scored.step_time->measured;
    if (scored.memory && shows_reserve(scored.run.memory_kind)) sample.memory = scored.memory->measured;
    if (scored.reason.empty() && sample.step_time <= 0 && sample.memory <= 0)
      scored.reason = "no step time, and no memory that shows the allocator's reserve";
    if (const Result<void> parts = read_parts(scored.run, sample); !parts && scored.reason.empty())
      scored.reason = parts.error().front().message;
    if (const auto& step = scored.step_time; step && scored.reason.empty())
      scored.reason = far_step(step->measured, step->predicted, step->high);
    if (!scored.reason.empty()) {
      skipped.push_back(std::move(scored));
      continue;
    }
    Result<RunProblem> built = problem_of(scored.run, catalogue);
    sample.problem = std::move(built->problem), sample.layout = std::move(built->layout);
    sample.memory_kind = scored.run.memory_kind;
    samples.push_back(std::move(sample));
  }
  return samples;
}

struct Pairs {
  std::vector<Compared> time_before{}, time_after{}, memory_before{}, memory_after{};

  void add(const Sample& sample, const Calibration& start, const Calibration& fitted) {
    const Predicted before = predict(sample, start), after = predict(sample, fitted);
    if (sample.step_time > 0)
      time_before.push_back({sample.step_time, before.step_time, 0, 0}),
          time_after.push_back({sample.step_time, after.step_time, 0, 0});
    if (sample.memory > 0)
      memory_before.push_back({sample.memory, before.memory, 0, 0}),
          memory_after.push_back({sample.memory, after.memory, 0, 0});
  }
};

/// Fits without every fold in turn and predicts it: each run alone when there are few, else every fifth once.
Pairs held_out(const std::vector<Sample>& samples, const Calibration& start, bool one_by_one) {
  Pairs pairs;
  const std::size_t folds = one_by_one ? samples.size() : 1;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    const auto out = [&](std::size_t i) { return one_by_one ? i == fold : i % 5 == 4; };
    Samples seen;
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (!out(i)) seen.push_back(&samples[i]);
    const Calibration fitted = constants_at(start, fit(seen, start).logs);
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (out(i)) pairs.add(samples[i], start, fitted);
  }
  return pairs;
}

/// 90 % interval of the next step beside its prediction, from errors on runs that the fit had not seen: Student's
/// quantile, by the first term of its expansion in 1/n (Abramowitz and Stegun 26.7.5), on their root mean square.
Interval interval_of(const std::vector<Compared>& held_out) {
  if (held_out.empty()) return {};
  double squares = 0;
  for (const Compared& run : held_out) squares += std::pow(std::log(run.measured / run.predicted), 2);
  const auto n = static_cast<double>(held_out.size());
  const double reach =
      (kNinetyPercent + (std::pow(kNinetyPercent, 3) + kNinetyPercent) / (4 * n)) * std::sqrt(squares / n);
  return {std::exp(-reach), std::exp(reach)};
}

}  // namespace

double FittedConstant::deviations() const { return std::log(after / before) / field->spread; }

Result<CalibrationResult> calibrate(std::span<const Run> runs, const Catalogue& catalogue,
                                    const ValidateOptions& options) {
  CalibrationResult result;
  const std::vector<Sample> samples = samples_of(runs, catalogue, options, result.skipped);
  if (samples.size() < kFewestRuns) {
    Error error{.code = "too_few_runs",
                .message = std::to_string(samples.size()) + " of " + std::to_string(runs.size()) +
                           " runs can be fitted, and a calibration needs three"};
    if (!result.skipped.empty()) error.facts.push_back("not fitted: " + result.skipped.front().reason);
    error.help.push_back("`plan validate` says of every run why it cannot be scored");
    return fail(std::move(error));
  }
  const Calibration start = samples.front().problem.cluster.calibration;
  result.runs = static_cast<int>(samples.size());
  result.leave_one_out = result.runs < kRunsForFifths;
  const Pairs pairs = held_out(samples, start, result.leave_one_out);
  result.step_time = {score_errors(pairs.time_before), score_errors(pairs.time_after)};
  result.memory = {score_errors(pairs.memory_before), score_errors(pairs.memory_after)};
  result.unseen = interval_of(pairs.time_after);
  result.traced = static_cast<int>(std::count_if(samples.begin(), samples.end(), traced));

  Samples all;
  std::vector<RanJob> timed;
  for (const Sample& sample : samples) {
    all.push_back(&sample);
    if (sample.step_time > 0) timed.push_back({&sample.problem, &sample.layout});
  }
  if (timed.size() >= kRunsToLearnFrom) result.learnt = learnt_from(timed, result.unseen);
  const Fit found = fit(all, start);
  result.calibration = constants_at(start, found.logs);
  for (Eigen::Index i = 0; i < kConstants; ++i) {
    const CalibrationField& field = kCalibrationFields[i];
    result.constants.push_back({&field, start.*field.value, result.calibration.*field.value, found.spread[i]});
  }
  return result;
}

}  // namespace plan
