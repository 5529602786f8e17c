#pragma once

#include <array>
#include <string>
#include <vector>

#include "planner/estimate/uncertainty.hpp"

namespace plan::fit {

/// A run's ln(measured / predicted), predicted without its own suite, and what its doubt may come from.
struct Residual {
  std::string suite;
  double log = 0;
  std::array<double, kDoubts> doubts{};
};

/// Normalised conformal intervals: a residual's scale is exp(scale . (1, doubts)), and a share of all residuals over
/// their scales lies between low and high.
struct Conformal {
  std::array<double, kDoubts + 1> scale{};
  double low = 0, high = 0;
  double coverage = 0;  ///< of suites that had no part in either, macro
  double width = 0;     ///< of their intervals, high over low, macro
};

/// Fits scales by weighted least squares of ln|residual|, suites weighing the same, and sets the level so that suites
/// left out are covered `wanted`, macro.
[[nodiscard]] Conformal conformal(const std::vector<Residual>& residuals, double wanted);

/// A kind of memory figure: what 90 % of it lie between, measured over predicted.
struct KindResidual {
  std::string kind, suite;
  double log = 0;  ///< ln(measured / predicted)
};
struct KindBand {
  std::string kind;
  Interval interval{};
  int runs = 0;
};
/// What share of a suite's figures of one kind lies inside bands that it had no part in.
struct SuiteCoverage {
  std::string kind, suite;
  double share = 0;
  int runs = 0;
};
/// By kind, suites weighing the same, and never narrower than a multiple of what the middles of suites differ by,
/// downwards those of all kinds, upwards those of this kind before all others: the multiple with which suites that had
/// no part in their band are covered as wanted, macro, and none with rows enough to tell by less than three in four.
struct MemoryBands {
  std::vector<KindBand> bands{};
  double multiple = 0;
  double coverage = 0;  ///< of suites left out
  std::vector<SuiteCoverage> suites{};
};
[[nodiscard]] MemoryBands memory_bands(const std::vector<KindResidual>& residuals, double wanted);

}  // namespace plan::fit
