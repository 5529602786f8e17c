#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/runs/run_problem.hpp"
#include "planner/runs/runs.hpp"

namespace plan {

/// A measured figure beside its prediction and the prediction's interval.
struct Compared {
  double measured = 0;
  double predicted = 0;
  double low = 0, high = 0;
  double error() const { return predicted / measured - 1; }
  bool covered() const { return low <= measured && measured <= high; }
};

/// One run after prediction. `reason` is empty when it was scored on anything.
struct ScoredRun {
  Run run{};
  std::string reason{};                 ///< why it could not be scored
  std::vector<std::string> remarks{};   ///< what of a scored row was taken for something else, or not compared
  std::optional<Compared> step_time{};  ///< seconds
  std::optional<Compared> memory{};     ///< bytes, of the row's memory kind
  Terms terms{};                        ///< of the predicted step
  Layout layout{};                      ///< that was predicted
  std::optional<bool> fits{};           ///< predicted, where the run says whether it did
  bool fitted = false;                  ///< measured
};

/// Error statistics of one quantity; ratios, not percent.
struct ErrorScore {
  int n = 0;
  double median_ape = 0, mape = 0, p90_ape = 0;
  double bias = 0;  ///< mean signed error; positive = predicted too much
};

struct FitScore {
  int n = 0, correct = 0;
  double balanced_accuracy = 0;  ///< mean of the hit rates of "fits" and "does not fit"
};

/// Choosing among measured layouts of the same job by predicted time.
struct RankingScore {
  int groups = 0;
  double median_regret = 0, p90_regret = 0;  ///< measured time of the choice / fastest measured - 1
  double kendall_tau = 0;                    ///< mean over the groups
};

struct Coverage {
  double step_time = 0, memory = 0;  ///< share of measurements inside the interval
  int step_times = 0, memories = 0;
};

struct SuiteScore {
  ErrorScore step_time{};
  std::map<std::string, ErrorScore> memory{};  ///< by memory kind
  FitScore fit{};
  RankingScore ranking{};
  Coverage coverage{};
};

struct Validation {
  std::vector<ScoredRun> runs{};
  std::map<std::string, SuiteScore> suites{};
  SuiteScore overall{};  ///< macro average: every suite weighs the same
  int scored = 0;
};

struct ValidateOptions {
  bool rough = false;  ///< also score quality C
};

/// Predicts every run and scores the predictions.
[[nodiscard]] Validation validate(std::span<const Run> runs, const Catalogue& catalogue,
                                  const ValidateOptions& options = {});

/// The peak that a kind of memory figure shows, in bytes; nullopt for a kind that says too little.
[[nodiscard]] std::optional<double> memory_reading(const std::string& kind, const Estimate& estimate);

/// Median, mean and 90th percentile of the relative errors of predictions against measurements, as ratios, and their
/// bias.
[[nodiscard]] ErrorScore score_errors(const std::vector<Compared>& pairs);

/// Quantile by linear interpolation between order statistics; 0 for no values.
[[nodiscard]] double quantile(std::vector<double> values, double q);

}  // namespace plan
