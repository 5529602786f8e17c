#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/estimate/uncertainty.hpp"
#include "planner/runs/run_problem.hpp"

namespace plan::fit {

/// A global constant of the cost model: which, what it is believed to be, and how far it may lie from that.
struct Constant {
  const char* name;
  double Calibration::*member;
  double prior;
  double spread;  ///< standard deviation of its logarithm
};
[[nodiscard]] std::span<const Constant> constants();

/// Takes the beliefs about every constant from the text of presets/calibration.yaml, which says where they come from.
/// False if one is missing.
[[nodiscard]] bool read_beliefs(const std::string& text);

/// The same text with another value of an indented key, which may be a list, a map or the `value` of a map; `found`
/// becomes false if the text has no such key.
[[nodiscard]] std::string with_value(std::string text, const std::string& key, const std::string& value, bool& found);

/// In the fit of the constants the rows of one model in one suite share one vote, since they miss by what is their own
/// together, and a suite has so many votes at most.
inline constexpr double kSuiteModels = 12;
/// In intervals, which tell how rows scatter, a suite counts as this many independent runs, or its own number if fewer.
inline constexpr double kSuiteVotes = 25;

/// A published run that states a step time, ready to be predicted.
struct Timed {
  std::string id, suite, model;
  std::string job{};  ///< all that layouts which are compared have in common
  RunProblem run{};
  double measured = 0;  ///< seconds
};

/// ln(predicted / measured) of every run under a calibration.
[[nodiscard]] std::vector<double> residuals(std::span<Timed> runs, const Calibration& calibration);

/// How residuals answer to the constants' logarithms, around a calibration: a row per run.
struct Linear {
  std::vector<double> residual{};
  std::vector<std::vector<double>> slope{};
};
[[nodiscard]] Linear linearise(std::span<Timed> runs, const Calibration& calibration);

/// One robust, regularised least-squares step from `calibration`, suites weighing the same, `left_out` and runs with
/// guessed degrees nothing.
[[nodiscard]] Calibration improve(std::span<const Timed> runs, const Linear& linear, const Calibration& calibration,
                                  const std::string& left_out);

/// Quantile `q` of values with weights.
struct Weighted {
  double value = 0, weight = 1;
};
[[nodiscard]] double weighted_quantile(std::vector<Weighted> values, double q);

}  // namespace plan::fit
