#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "hwprobe/profile/assemble.hpp"

namespace plan {

/// How far a probe is, for a line on the terminal.
struct SessionProgress {
  std::size_t done = 0, all = 0;
  std::string what{};
  double seconds_left = 0;
  std::string_view section{};
};
using ShowProgress = std::function<void(const SessionProgress&)>;
/// Asked between points: has the user interrupted?
using Interrupted = std::function<bool()>;

/// What came of measuring: all of it, or what there was when it ended.
struct SessionOutcome {
  std::vector<Observation> observations{};
  std::vector<ProfileSkip> skipped{};
  std::vector<ProfileConditions> conditions{};  ///< by section
  std::vector<ProfileWarning> warnings{};
  Errors failure{};  ///< why it ended early
  bool interrupted = false;
};

/// The ranks that measure.
struct PointRounds {
  /// Every rank's packed answer to one point.
  std::function<Result<std::vector<std::string>>(const SweepPoint&)> ask;
  std::vector<std::string> names{};  ///< of the ranks
  ShowProgress show{};
  Interrupted interrupted{};
};

/// Measures the points in their order, and those of single GPUs once more in the opposite one while the budget lasts;
/// a point that a rank cannot measure
/// is skipped with that rank's words, and only a rank that is lost ends the probe; a fixed GEMM and copy run at the
/// beginning of each such section and every few seconds, to tell drift from shape.
[[nodiscard]] SessionOutcome run_points(const Sweep& sweep, double budget_s, const PointRounds& rounds);

}  // namespace plan
