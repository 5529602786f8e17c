#pragma once

#include <optional>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/answer/plan.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// A normal distribution of ln(time / predicted time).
struct Doubt {
  double mean = 0, sd = 0;
  /// 90 % interval as factors on the prediction.
  [[nodiscard]] Interval interval() const;
};

/// What is believed of the errors of step times of one job: normal and correlated, since all are predicted by the same
/// laws. Runs that were measured narrow it.
///
/// The error of a step is a share that all layouts have in common, plus each term's own error weighed by how much more
/// of the step it is than in the layout of reference, plus what is left where two steps consist of the same. The
/// variances are those of Draws and of paired_spread; the common one is what remains of the interval of the reference.
class Beliefs {
 public:
  /// The first of `layouts` is the reference, the recommended one. Their own steps may be asked for, and measured.
  Beliefs(const Problem& problem, const std::vector<Estimate>& layouts);

  /// A run was measured: `terms` of its prediction, ln(measured / predicted), and the standard deviation of that
  /// measurement. `layout`: it was this layout of the job itself; -1: another, or on other GPUs.
  void observe(const Terms& terms, double log_ratio, double noise, int layout = -1);

  /// Takes such a run into account before it is measured: how narrow the doubt becomes does not hang on what the run
  /// will show.
  void expect(const Terms& terms, double noise, int layout = -1);

  /// What is believed of ln(measured / predicted) of one of the layouts.
  [[nodiscard]] Doubt of(int layout) const;
  /// ln of (time of `other` / time of `layout`), its prediction included.
  [[nodiscard]] Doubt between(int layout, int other) const;
  /// What is left to know, 1 before any run: the variance of the reference, and of its ratio to each other layout that
  /// the doubt leaves open, averaged, as shares of what they were.
  [[nodiscard]] double open() const;

 private:
  using Vector = std::vector<double>;
  void condition(const Terms& terms, std::optional<double> log_ratio, double noise, int layout);
  [[nodiscard]] Vector features(const Terms& terms, int layout) const;
  [[nodiscard]] double variance(const Vector& features) const;
  [[nodiscard]] double variance_between(int layout, int other) const;

  std::vector<Terms> terms_{};
  std::vector<double> steps_{};
  Vector reference_{};  ///< shares of the terms
  Vector mean_{};
  std::vector<Vector> covariance_{};
  double own_ = 0;  ///< standard deviation of what two steps of the same terms differ by, either side
  double first_ = 0;
  std::vector<std::optional<double>> before_{};  ///< variance against the reference, of layouts that were open
};

/// A short run that would tell something.
struct NextRun {
  Problem problem{};    ///< the job on these GPUs, with a batch of that many replicas
  Estimate estimate{};  ///< of it there
  int steps = 0;
  double minutes = 0;  ///< of these steps; starting up comes on top
  int of_layout = 0;   ///< index of the layout that it is a piece of
  bool whole = false;  ///< that layout on all its GPUs
  double gpu_hours() const { return minutes / 60 * problem.gpus; }
  double open = 0;    ///< Beliefs::open() after it and the runs before it
  Doubt reference{};  ///< of the recommended layout then
};

/// Runs in the order to make them, at most three: each takes the most off what is left to know per GPU-hour, among
/// those that take off a tenth at least. Candidates are the layouts themselves and the same on fewer replicas, halved
/// as long as the framework runs them and they fit for certain.
[[nodiscard]] std::vector<NextRun> next_runs(const Problem& problem, const std::vector<Estimate>& layouts,
                                             Beliefs beliefs);

/// The standard deviation of a median of that many steps' logarithm, and of what a job's start and its place on the
/// cluster add.
inline constexpr double kRunNoise = 0.01;

}  // namespace plan
