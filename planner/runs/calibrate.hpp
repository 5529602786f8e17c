#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "formulas/calibration_fields.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/runs/validate.hpp"

namespace plan {

/// One constant before and after; `spread` is its relative standard deviation given runs and prior.
struct FittedConstant {
  const CalibrationField* field = nullptr;
  double before = 0, after = 0;
  double spread = 0;
  /// How far it went, in standard deviations of what was known beforehand.
  [[nodiscard]] double deviations() const;
  /// Further than two: it may conceal something else that is not as stated or not modelled.
  [[nodiscard]] bool stands_in() const { return std::abs(deviations()) > 2; }
};

/// Errors on runs that the fit has not seen, before and after it.
struct HeldOut {
  ErrorScore before{}, after{};
};

struct CalibrationResult {
  Calibration calibration{};  ///< fitted to all runs
  std::vector<FittedConstant> constants{};
  int runs = 0;                      ///< that the fit used
  std::vector<ScoredRun> skipped{};  ///< with their reasons
  bool leave_one_out = false;        ///< held-out runs one at a time, else every fifth
  HeldOut step_time{}, memory{};
  int traced = 0;  ///< of the runs, those that say where their time went
  /// 90 % interval of the step of a layout like these that was not run, as factors on its prediction.
  Interval unseen{};
  LearntSteps learnt{};  ///< the same with what "like these" means; none where too few of the runs state a step time
};

/// Fits the constants of kCalibrationFields to measured runs, which start from the calibration of the clusters that
/// `catalogue` gives. Least squares of ln(predicted / measured) of step times, and of memory readings that hold the
/// allocator's reserve, with a soft-L1 loss, so that wild runs do not decide, and a Gaussian prior on the logarithm of
/// each constant, so that what the runs do not tell stays as it was. Where a run says how long the parts of its step
/// took (plan-runs(5)), each part is fitted too, as a share of the step. Needs three runs.
[[nodiscard]] Result<CalibrationResult> calibrate(std::span<const Run> runs, const Catalogue& catalogue,
                                                  const ValidateOptions& options = {});

}  // namespace plan
