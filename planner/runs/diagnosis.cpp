// Measured beside predicted: which part of a step is off, and which fault explains it.
//
// Assumption: a run has one fault at a time, and errors of the model are independent between parts of the step. The
// model's own error follows from the interval of the whole step, and from its lower end: that interval is of published
// runs, some of which may have faults too, and a fault never shortens a step. Runs below their prediction are there by
// the model's error alone, which is taken to reach as far above it. Published runs bear that out where most of them
// lie: in such units their median is 0.05, their quartiles are -0.4 and 0.6; their upper tail is longer, 9 of 100
// beyond 1.88, where a normal one has 3. What a rank does by itself errs as a step without waits does by the same fit;
// waits for others err by what then remains. Parts of a kind err independently by the same share r:
// sigma = r * sqrt(sum of their squares).
//
// Source: least squares and Akaike's information criterion (Akaike 1974, IEEE TAC 19-6); the correction for several
// parts is Bonferroni's. Tested by tests/planner/diagnosis_test.cpp.
#include "planner/runs/diagnosis.hpp"

#include <algorithm>
#include <cmath>

#include "planner/claims.hpp"
#include "planner/cost.hpp"
#include "planner/uncertainty.hpp"

namespace plan {
namespace {

constexpr double kNinetyPercent = 1.6448536269514722;  ///< either half of a 90 % interval in standard deviations
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

/// The same time without waits for others, as the interval of a step sees them.
Terms without_waits(Terms terms) {
  for (const auto wait : {&Terms::tp, &Terms::cp, &Terms::ep, &Terms::pp, &Terms::dp, &Terms::bubble})
    terms.compute += terms.*wait, terms.*wait = Seconds(0);
  return terms;
}

bool waits_in(Observable part) {
  return part == Observable::Tp || part == Observable::Cp || part == Observable::Ep || part == Observable::Pipeline ||
         part == Observable::Dp;
}

/// Standard deviations of what the model errs by on a healthy run, as shares of what they are of.
struct Errors {
  double step = 0;
  double own = 0;    ///< of a part that a rank does by itself
  double waits = 0;  ///< of a part that takes others
  double of(Observable part) const { return part == Observable::Step ? step : waits_in(part) ? waits : own; }
};

Errors errors_of(const Problem& problem, const Estimate& estimate, const StepParts& predicted) {
  double own = 0, own_squares = 0, wait_squares = 0;
  for (int i = 1; i < kObservables; ++i) {
    const bool waits = waits_in(static_cast<Observable>(i));
    own += waits ? 0 : predicted[i];
    (waits ? wait_squares : own_squares) += predicted[i] * predicted[i];
  }
  const auto below = [](double low) { return -std::log(low) / kNinetyPercent; };
  const double coverage = time_coverage(problem, estimate).share;
  Errors errors;
  errors.step = below(estimate.step_time_low / estimate.step_time);
  errors.own = std::min(errors.step, below(time_interval(problem, without_waits(estimate.terms), coverage).low));
  if (own_squares > 0) errors.own *= own / std::sqrt(own_squares);
  const double step = errors.step * predicted[0];
  const double left = std::max(0.0, step * step - errors.own * errors.own * own_squares);
  errors.waits = std::max(errors.own, wait_squares > 0 ? std::sqrt(left / wait_squares) : 0);
  return errors;
}

std::vector<ComparedPart> compare(const Errors& errors, const StepParts& predicted, const MeasuredStep& measured) {
  std::vector<ComparedPart> parts;
  for (int i = 0; i < kObservables; ++i) {
    if (!measured.seconds[i]) continue;
    const auto part = static_cast<Observable>(i);
    const double sigma =
        std::hypot(errors.of(part) * predicted[i], kBlur * predicted[0], measured.spread * predicted[i]);
    parts.push_back({part, *measured.seconds[i], predicted[i], sigma});
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

/// What one more forward pass of the recomputed work is made of.
Phase recomputed(const Problem& problem, const Layout& layout) {
  const CostModel costs(problem, split_of(layout));
  const bool full = layout.recompute.kind == RecomputeKind::Full;
  Phase sum;
  for (const auto kind : problem.model.layers)
    sum += full ? costs.full_recompute(kind) : costs.selective_recompute(kind, layout.recompute.modules);
  return sum;
}

}  // namespace

StepParts parts_of(const Problem& problem, const Estimate& e) {
  const Terms& t = e.terms;
  StepParts parts{};
  const auto set = [&](Observable part, double seconds) { parts[static_cast<std::size_t>(part)] = seconds; };
  const bool reduces = e.layout.dense_group() > 1;  // ranks wait for the slowest where gradients are summed
  set(Observable::Step, e.step_time.value);
  const Phase again = t.recompute.value > 0 ? recomputed(problem, e.layout) : Phase{};
  const double share = again.total() > 0 ? t.recompute.value / again.total() : 0;  // messages are sent once more too
  set(Observable::Tp, t.tp.value + share * again.tp);
  set(Observable::Cp, t.cp.value + share * again.cp);
  set(Observable::Ep, t.ep.value + share * again.ep);
  set(Observable::Compute, (t.compute + t.recompute).value - share * (again.tp + again.cp + again.ep));
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
  diagnosis.parts = compare(errors_of(problem, estimate, predicted), predicted, measured);
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
    for (const Evidence& one : evidence)
      if (one.fault == fault.code) suspect.evidence.push_back(one);
    const bool seen = std::any_of(suspect.evidence.begin(), suspect.evidence.end(),
                                  [](const Evidence& evidence) { return evidence.speaks_for; });
    if (fault.needs_evidence && !seen) continue;
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
