// Measured beside predicted: which part of a step is off, and which fault explains it.
//
// Assumption: a run has one fault at a time, and errors of the model are independent between parts of the step. The
// model's own error of a part follows from the interval of the whole step: parts that err independently by the same
// share r add up to sigma_step = r * sqrt(sum of squares of the parts).
// Source: least squares and Akaike's information criterion (Akaike 1974, IEEE TAC 19-6); the correction for several
// parts is Bonferroni's. Tested by tests/planner/diagnosis_test.cpp.
#include "planner/runs/diagnosis.hpp"

#include <algorithm>
#include <cmath>

namespace plan {
namespace {

constexpr double kNinetyPercent = 1.6448536269514722;  ///< half-width of a 90 % interval in standard deviations
/// What a step's parts cannot be told apart by, share of the step: rounding of logs, edges of kernels in traces.
constexpr double kBlur = 0.005;
constexpr double kPenaltyOfSize = 2;  ///< Akaike: for a fitted factor
constexpr double kEvidenceUnits = 8;  ///< one piece of evidence weighs as much as two standard deviations in two parts
/// A healthy run is blamed in so many cases.
constexpr double kFalseAlarms = 0.03;
constexpr int kGrid = 25;

/// Upper quantile of the standard normal distribution: z with P(Z > z) = p. Newton's method on erfc.
double upper_quantile(double p) {
  double z = 2;
  for (int i = 0; i < 30; ++i) {
    const double error = 0.5 * std::erfc(z / std::sqrt(2.0)) - p;
    z += error / (std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0)));
  }
  return z;
}

std::vector<ComparedPart> compare(const Estimate& estimate, const StepParts& predicted, const MeasuredStep& measured) {
  const double step = predicted[0];
  const double relative = std::log(estimate.step_time_high.value / estimate.step_time_low.value) / (2 * kNinetyPercent);
  double squares = 0;
  for (int i = 1; i < kObservables; ++i) squares += predicted[i] * predicted[i];
  const double each = squares > 0 ? relative * step / std::sqrt(squares) : relative;
  std::vector<ComparedPart> parts;
  for (int i = 0; i < kObservables; ++i) {
    if (!measured.seconds[i]) continue;
    const double model = (i == 0 ? relative : each) * predicted[i];
    const double sigma = std::hypot(model, kBlur * step, measured.spread * predicted[i]);
    parts.push_back({static_cast<Observable>(i), *measured.seconds[i], predicted[i], sigma});
  }
  return parts;
}

double misfit_of(const std::vector<ComparedPart>& parts, const StepParts& explained) {
  double sum = 0;
  for (const ComparedPart& part : parts) {
    const double z = (part.measured - explained[static_cast<std::size_t>(part.part)]) / part.sigma;
    sum += z * z;
  }
  return sum;
}

/// The size of the fault that leaves least unexplained: a grid in the logarithm, then golden sections around its best.
Suspect fit(const Fault& fault, const Problem& problem, const Estimate& estimate,
            const std::vector<ComparedPart>& parts) {
  const auto misfit_at = [&](double factor) { return misfit_of(parts, fault.parts(problem, estimate, factor)); };
  Suspect suspect{&fault, fault.least, 0, 0, {}, {}};
  if (fault.least < fault.most) {
    const double low = std::log(fault.least), step = (std::log(fault.most) - low) / (kGrid - 1);
    int best = 0;
    double least = misfit_at(fault.least);
    for (int i = 1; i < kGrid; ++i)
      if (const double here = misfit_at(std::exp(low + i * step)); here < least) least = here, best = i;
    double a = low + std::max(best - 1, 0) * step, b = low + std::min(best + 1, kGrid - 1) * step;
    constexpr double kGolden = 0.6180339887498949;
    double left = b - kGolden * (b - a), right = a + kGolden * (b - a);
    double at_left = misfit_at(std::exp(left)), at_right = misfit_at(std::exp(right));
    for (int i = 0; i < 12; ++i)  // one of the two points inside stays, and takes the other's place
      if (at_left < at_right) {
        b = right, right = left, at_right = at_left;
        at_left = misfit_at(std::exp(left = b - kGolden * (b - a)));
      } else {
        a = left, left = right, at_left = at_right;
        at_right = misfit_at(std::exp(right = a + kGolden * (b - a)));
      }
    suspect.factor = std::exp((a + b) / 2);
  }
  suspect.parts = fault.parts(problem, estimate, suspect.factor);
  suspect.misfit = misfit_of(parts, suspect.parts);
  return suspect;
}

/// Akaike's criterion of a suspect, evidence included: the lower, the likelier.
double criterion(const Suspect& suspect) {
  double units = suspect.misfit + (suspect.fault->least < suspect.fault->most ? kPenaltyOfSize : 0);
  for (const Evidence& evidence : suspect.evidence) units += evidence.speaks_for ? -kEvidenceUnits : kEvidenceUnits;
  return units;
}

}  // namespace

StepParts parts_of(const Problem& problem, const Estimate& e) {
  const Terms& t = e.terms;
  StepParts parts{};
  const auto set = [&](Observable part, double seconds) { parts[static_cast<std::size_t>(part)] = seconds; };
  const bool reduces = e.layout.dense_group() > 1;  // ranks wait for the slowest where gradients are summed
  set(Observable::Step, e.step_time.value);
  set(Observable::Compute, (t.compute + t.recompute).value);
  set(Observable::Tp, t.tp.value);
  set(Observable::Cp, t.cp.value);
  set(Observable::Ep, t.ep.value);
  set(Observable::Pipeline, (t.pp + t.bubble).value);
  set(Observable::Dp, t.dp.value + (reduces ? t.straggler.value : 0));
  const double fixed = std::min(problem.cluster.calibration.fixed_step_ms * 1e-3, t.optimizer.value);
  set(Observable::Optimizer, t.optimizer.value - fixed);
  set(Observable::Idle, fixed + (reduces ? 0 : t.straggler.value));
  return parts;
}

Diagnosis diagnose(const Problem& problem, const Estimate& estimate, const MeasuredStep& measured,
                   const std::vector<Evidence>& evidence) {
  const StepParts predicted = parts_of(problem, estimate);
  Diagnosis diagnosis;
  diagnosis.parts = compare(estimate, predicted, measured);
  diagnosis.misfit = misfit_of(diagnosis.parts, predicted);
  const double alarm =
      upper_quantile(kFalseAlarms / static_cast<double>(std::max<std::size_t>(1, diagnosis.parts.size())));
  double worst = alarm;
  for (const ComparedPart& part : diagnosis.parts)
    if (part.z() > worst) worst = part.z(), diagnosis.worst = part.part;
  if (!diagnosis.worst) return diagnosis;
  for (const Fault& fault : faults()) {
    if (!fault.possible(problem, estimate)) continue;
    Suspect suspect = fit(fault, problem, estimate, diagnosis.parts);
    for (const Evidence& seen : evidence)
      if (seen.fault == fault.code) suspect.evidence.push_back(seen);
    if (suspect.misfit < diagnosis.misfit) diagnosis.suspects.push_back(std::move(suspect));
  }
  std::stable_sort(diagnosis.suspects.begin(), diagnosis.suspects.end(),
                   [](const Suspect& a, const Suspect& b) { return criterion(a) < criterion(b); });
  double total = 0;
  for (const Suspect& suspect : diagnosis.suspects)
    total += std::exp((criterion(diagnosis.suspects.front()) - criterion(suspect)) / 2);
  for (Suspect& suspect : diagnosis.suspects)
    suspect.share = std::exp((criterion(diagnosis.suspects.front()) - criterion(suspect)) / 2) / total;
  return diagnosis;
}

}  // namespace plan
