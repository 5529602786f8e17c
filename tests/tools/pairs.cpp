// How far apart the errors of two layouts of one job lie: the fit behind `pair` of presets/calibration.yaml. Assumes
// that both parts of the error are independent, so that their variances add. Tested by tests/tools/pairs_test.cpp.
#include "tests/tools/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/tools/time_fit.hpp"

namespace plan::fit {
namespace {

constexpr int kPasses = 20;
constexpr double kFar = 3;         // standard deviations
constexpr double kNinety = 1.645;  // standard deviations either side that hold 90 % of a normal variable
constexpr double kLeast = 0.005;   // of a logarithm: repeats of one run differ by no less

}  // namespace

PairedFit paired_fit(const std::vector<Pair>& pairs) {
  std::map<std::string, double> rows;
  for (const Pair& pair : pairs) ++rows[pair.suite];
  const auto votes = [&](const Pair& pair) { return std::min(1.0, kSuiteVotes / rows.at(pair.suite)); };
  PairedFit fit{.same = 0.1, .different = 0.1, .pairs = static_cast<int>(pairs.size())};
  fit.suites = static_cast<int>(rows.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    double w = 0, x = 0, xx = 0, y = 0, xy = 0;
    for (const Pair& pair : pairs) {
      const double square = pair.moved * pair.moved;
      const double variance = fit.same * fit.same + fit.different * fit.different * square;
      const double seen = std::min(pair.log * pair.log, kFar * kFar * variance);
      const double weight = votes(pair) / (variance * variance);
      w += weight, x += weight * square, xx += weight * square * square;
      y += weight * seen, xy += weight * square * seen;
    }
    const double spread = w * xx - x * x;
    if (!(spread > 0)) break;  // all pairs equal: nothing tells the parts apart
    double slope = (w * xy - x * y) / spread, level = (y - slope * x) / w;
    if (slope < 0) slope = 0, level = y / w;
    if (level < kLeast * kLeast) level = kLeast * kLeast, slope = std::max(0.0, xy - level * x) / xx;
    fit.same = std::sqrt(level), fit.different = std::sqrt(slope);
  }
  // Errors have longer tails than a normal variable: the level is set by the nine in ten that it is read for.
  std::vector<Weighted> far;
  for (const Pair& pair : pairs)
    far.push_back({std::abs(pair.log) / std::hypot(fit.same, fit.different * pair.moved), votes(pair)});
  const double level = far.empty() ? 1 : weighted_quantile(far, 0.9) / kNinety;
  fit.same *= level, fit.different *= level;
  return fit;
}

}  // namespace plan::fit
