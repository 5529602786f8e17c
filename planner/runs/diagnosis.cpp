// Measured beside predicted: which part of a step is off, and which fault explains it.
//
// Assumption: a run has one fault, or two whose times add up, and errors of the model are independent between parts of
// the step. The
// model's own error follows from the interval of the whole step, and from its lower end: that interval is of published
// runs, some of which may have faults too, and a fault never shortens a step. Runs below their prediction are there by
// the model's error alone, which is taken to reach as far above it. Published runs bear that out where most of them
// lie: in such units their median is 0.02, their quartiles are -0.5 and 0.5; their upper tail is longer, 6 of 100
// beyond 1.88, where a normal one has 3. What a rank does by itself errs as a step without waits does by the same fit;
// waits for others err by what then remains. Parts of a kind err independently by the same share r:
// sigma = r * sqrt(sum of their squares). Under a fault the model errs by the same share of what it predicts with it: a
// part that grows tenfold is known to a tenth as many seconds, and the wider density is charged for its width.
//
// Source: least squares and Akaike's information criterion (Akaike 1974, IEEE TAC 19-6), corrected for few observations
// (Hurvich and Tsai 1989, Biometrika 76-2); the correction for several parts is Bonferroni's. Tested by
// tests/planner/diagnosis_test.cpp.
#include "planner/runs/diagnosis.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/answer/normal.hpp"
#include "planner/cost/cost.hpp"
#include "planner/estimate/claims.hpp"
#include "planner/estimate/uncertainty.hpp"

namespace plan {
namespace {

/// What a step's parts cannot be told apart by, share of the step: rounding of logs, edges of kernels in traces.
constexpr double kBlur = 0.005;
/// What a fitted factor costs: Akaike's two units, and what they lack where few parts of a step are known. For one or
/// two parts the correction is not defined.
double penalty_of_size(std::size_t parts) { return 2 + (parts > 2 ? 4 / (static_cast<double>(parts) - 2) : 0); }
constexpr double kEvidenceUnits = 8;  ///< one piece of evidence weighs as much as two standard deviations in two parts
constexpr double kDirectUnits = 25;   ///< and what the plan rules out as much as five in one
/// A healthy run is blamed in so many cases.
constexpr double kFalseAlarms = 0.03;
constexpr int kGrid = 25;
constexpr double kSecondFault = 9;  ///< three standard deviations in one part, beyond the penalty of its size

/// Upper quantile of the standard normal distribution: z with P(Z > z) = p. Newton's method on erfc.
double upper_quantile(double p) {
  double z = 2;
  for (int i = 0; i < 30; ++i) {
    const double error = 0.5 * std::erfc(z / std::sqrt(2.0)) - p;
    z += error / (std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0)));
  }
  return z;
}

/// The same step time with every wait for other ranks counted as compute: the interval of a step is that of its sum.
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
struct RelativeErrors {
  double step = 0;
  double own = 0;    ///< of a part that a rank does by itself
  double waits = 0;  ///< of a part that takes others
  double of(Observable part) const { return part == Observable::Step ? step : waits_in(part) ? waits : own; }
};

RelativeErrors errors_of(const Problem& problem, const Estimate& estimate, const StepParts& predicted) {
  double own = 0, own_squares = 0, wait_squares = 0;
  for (int i = 1; i < kObservables; ++i) {
    const bool waits = waits_in(static_cast<Observable>(i));
    own += waits ? 0 : predicted[i];
    (waits ? wait_squares : own_squares) += predicted[i] * predicted[i];
  }
  const auto below = [](double low) { return -std::log(low) / kNinetyPercent; };
  const double coverage = time_coverage(problem, estimate).share;
  RelativeErrors errors;
  errors.step = below(estimate.step_time_low / estimate.step_time);
  errors.own = std::min(errors.step, below(time_interval(problem, without_waits(estimate.terms), coverage).low));
  if (own_squares > 0) errors.own *= own / std::sqrt(own_squares);
  const double step = errors.step * predicted[0];
  const double left = std::max(0.0, step * step - errors.own * errors.own * own_squares);
  errors.waits = std::max(errors.own, wait_squares > 0 ? std::sqrt(left / wait_squares) : 0);
  return errors;
}

std::vector<ComparedPart> compare(const RelativeErrors& errors, const StepParts& predicted,
                                  const MeasuredStep& measured) {
  std::vector<ComparedPart> parts;
  for (int i = 0; i < kObservables; ++i) {
    if (!measured.seconds[i]) continue;
    const auto part = static_cast<Observable>(i);
    const double sigma =
        std::hypot(errors.of(part) * predicted[i], kBlur * predicted[0], measured.spread * predicted[i]);
    parts.push_back({part, *measured.seconds[i], predicted[i], sigma, errors.of(part)});
  }
  return parts;
}

/// -2 ln of the likelihood of what was measured, up to what all faults share: 0 for a healthy run that is as predicted.
double misfit_of(const std::vector<ComparedPart>& parts, const StepParts& explained) {
  double sum = 0;
  for (const ComparedPart& part : parts) {
    const double seconds = explained[static_cast<std::size_t>(part.part)];
    const double more = part.error * std::sqrt(std::max(0.0, seconds * seconds - part.predicted * part.predicted));
    const double sigma = std::hypot(part.sigma, more), z = (part.measured - seconds) / sigma;
    sum += z * z + 2 * std::log(sigma / part.sigma);
  }
  return sum;
}

/// A fault put into the model at sizes from its least to its most, in even steps of the logarithm. Between them parts
/// of the step are straight lines.
class Sizes {
 public:
  Sizes(const Fault& fault, const Problem& problem, const Estimate& estimate) : fault_(&fault) {
    const bool sized = fault.least < fault.most;
    low_ = std::log(fault.least), step_ = sized ? (std::log(fault.most) - low_) / (kGrid - 1) : 0;
    for (int i = 0; i < (sized ? kGrid : 1); ++i)
      parts_.push_back(fault.parts(problem, estimate, std::exp(low_ + i * step_)));
  }

  /// The size that leaves least unexplained on top of `more`: the best of the grid, then golden sections around it.
  [[nodiscard]] Suspect fit(const std::vector<ComparedPart>& measured, const StepParts& more) const {
    const auto misfit_at = [&](double place) { return misfit_of(measured, at(place, more)); };
    double best = 0, least = misfit_at(0);
    const double last = static_cast<double>(parts_.size()) - 1;
    for (int i = 1; i <= last; ++i)
      if (const double here = misfit_at(i); here < least) least = here, best = i;
    if (last > 0) {
      double a = std::max(best - 1, 0.0), b = std::min(best + 1, last);
      constexpr double kGolden = 0.6180339887498949;
      for (int i = 0; i < 20; ++i) {
        const double left = b - kGolden * (b - a), right = a + kGolden * (b - a);
        (misfit_at(left) < misfit_at(right) ? b : a) = misfit_at(left) < misfit_at(right) ? right : left;
      }
      best = (a + b) / 2;
    }
    Suspect suspect{fault_, last > 0 ? std::exp(low_ + best * step_) : fault_->least, 0, 0, at(best, more), {}, false};
    suspect.misfit = misfit_of(measured, suspect.parts);
    return suspect;
  }

 private:
  [[nodiscard]] StepParts at(double place, const StepParts& more) const {
    const auto below = std::min(static_cast<std::size_t>(place), parts_.size() - 1);
    const std::size_t above = std::min(below + 1, parts_.size() - 1);
    const double share = place - static_cast<double>(below);
    StepParts out = more;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] += parts_[below][i] + share * (parts_[above][i] - parts_[below][i]);
    return out;
  }

  const Fault* fault_;
  double low_ = 0, step_ = 0;
  std::vector<StepParts> parts_{};
};

/// Akaike's criterion of a suspect, evidence included: the lower, the likelier.
double criterion(const Suspect& suspect, std::size_t parts) {
  double units = suspect.misfit + (suspect.fault->least < suspect.fault->most ? penalty_of_size(parts) : 0);
  for (const Evidence& evidence : suspect.evidence)
    units += (evidence.direct ? kDirectUnits : kEvidenceUnits) * (evidence.speaks_for ? -1 : 1);
  return units;
}

bool seen(const Suspect& suspect, bool direct_only) {
  return std::any_of(suspect.evidence.begin(), suspect.evidence.end(), [&](const Evidence& evidence) {
    return evidence.speaks_for && (evidence.direct || !direct_only);
  });
}

/// A fault under test: its sizes, and what it explains alone.
struct Tested {
  Sizes sizes;
  Suspect alone;
};

std::vector<Tested> test_all(const Problem& problem, const Estimate& estimate, const std::vector<ComparedPart>& parts,
                             const std::vector<Evidence>& evidence) {
  std::vector<Tested> tested;
  for (const Fault& fault : faults()) {
    if (!fault.possible(problem, estimate)) continue;
    std::vector<Evidence> of_it;
    for (const Evidence& one : evidence)
      if (one.fault == fault.code) of_it.push_back(one);
    Sizes sizes(fault, problem, estimate);
    Suspect suspect = sizes.fit(parts, StepParts{});
    suspect.evidence = std::move(of_it);
    if (fault.needs_evidence && !seen(suspect, false)) continue;
    tested.push_back({std::move(sizes), std::move(suspect)});
  }
  return tested;
}

/// The fault that explains most of what the first one leaves, if that is more than chance: it comes second.
void add_second(const std::vector<Tested>& tested, const StepParts& predicted, Diagnosis& diagnosis) {
  if (diagnosis.suspects.empty()) return;
  const std::size_t known = diagnosis.parts.size();
  const Suspect first = diagnosis.suspects.front();
  StepParts more{};
  for (std::size_t i = 0; i < more.size(); ++i) more[i] = first.parts[i] - predicted[i];
  std::optional<Suspect> best;
  for (const Tested& other : tested) {
    if (other.alone.fault == first.fault) continue;
    Suspect both = other.sizes.fit(diagnosis.parts, more);
    both.evidence = other.alone.evidence, both.besides = true;
    if (!best || criterion(both, known) < criterion(*best, known)) best = std::move(both);
  }
  if (!best) return;
  // A fault beside another must say more than the next likeliest would alone.
  const double rest = diagnosis.suspects.size() > 1 ? criterion(diagnosis.suspects[1], known) : diagnosis.misfit;
  const double gained =
      first.misfit - best->misfit - (best->fault->least < best->fault->most ? penalty_of_size(known) : 0);
  if (gained < kSecondFault || criterion(*best, known) > rest) return;
  auto& suspects = diagnosis.suspects;
  std::erase_if(suspects, [&](const Suspect& suspect) { return suspect.fault == best->fault; });
  suspects.insert(suspects.begin() + 1, std::move(*best));
}

/// The part that a fault lengthens most, and that is longer than planned.
std::optional<Observable> lengthened_most(const std::vector<ComparedPart>& parts, const Suspect& suspect,
                                          const StepParts& predicted) {
  std::optional<Observable> most;
  double longest = 0;
  for (const ComparedPart& part : parts) {
    const auto i = static_cast<std::size_t>(part.part);
    const double more = suspect.parts[i] - predicted[i];
    if (part.measured <= part.predicted || !(more > 0)) continue;
    if (part.part == Observable::Step)
      most = part.part;  // unless one of its own parts is known
    else if (more > longest)
      longest = more, most = part.part;
  }
  return most;
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
  const auto set = [&](Observable part, Seconds time) { parts[static_cast<std::size_t>(part)] = time.value; };
  const bool reduces = e.layout.dense_group() > 1;  // ranks wait for the slowest where gradients are summed
  set(Observable::Step, e.step_time);
  const Phase again = t.recompute.value > 0 ? recomputed(problem, e.layout) : Phase{};
  const double share = again.total() > Seconds() ? t.recompute / again.total() : 0;  // messages are sent once more too
  set(Observable::Tp, t.tp + share * again.tp);
  set(Observable::Cp, t.cp + share * again.cp);
  set(Observable::Ep, t.ep + share * again.ep);
  set(Observable::Compute, t.compute + t.recompute - share * (again.tp + again.cp + again.ep));
  set(Observable::Pipeline, t.pp + t.bubble);
  set(Observable::Dp, t.dp + (reduces ? t.straggler : Seconds()));
  const Seconds fixed = std::min(problem.cluster.calibration.fixed_step(), t.optimizer);
  set(Observable::Optimizer, t.optimizer - fixed);
  set(Observable::Idle, fixed + (reduces ? Seconds() : t.straggler));
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
  const bool shown =
      std::any_of(evidence.begin(), evidence.end(), [](const Evidence& one) { return one.direct && one.speaks_for; });
  if (!diagnosis.worst && !shown) return diagnosis;
  const std::vector<Tested> tested = test_all(problem, estimate, diagnosis.parts, evidence);
  for (const Tested& fault : tested) {
    if (!diagnosis.worst && !seen(fault.alone, true)) continue;
    if (fault.alone.misfit < diagnosis.misfit) diagnosis.suspects.push_back(fault.alone);
  }
  const std::size_t known = diagnosis.parts.size();
  std::stable_sort(diagnosis.suspects.begin(), diagnosis.suspects.end(),
                   [known](const Suspect& a, const Suspect& b) { return criterion(a, known) < criterion(b, known); });
  if (diagnosis.suspects.empty()) return diagnosis;
  if (!diagnosis.worst) diagnosis.worst = lengthened_most(diagnosis.parts, diagnosis.suspects.front(), predicted);
  if (!diagnosis.worst) diagnosis.suspects.clear();
  add_second(tested, predicted, diagnosis);
  const double least = criterion(diagnosis.suspects.front(), known);
  double sum = 0;
  for (Suspect& suspect : diagnosis.suspects)
    sum += suspect.share = std::min(1.0, std::exp((least - criterion(suspect, known)) / 2));
  for (Suspect& suspect : diagnosis.suspects) suspect.share /= sum;
  return diagnosis;
}

}  // namespace plan
