#pragma once

#include <string>
#include <vector>

namespace plan::fit {

/// Two measured layouts of one job: how far their measured ratio lies from the predicted one.
struct Pair {
  std::string suite{};
  double log = 0;    ///< ln(measured ratio / predicted ratio)
  double moved = 0;  ///< share of the mean step that they spend on different things
};

/// Standard deviation of `log` is the root of same^2 + (different moved)^2.
struct PairedFit {
  double same = 0, different = 0;
  int pairs = 0, suites = 0;
};

/// Their ratio by least squares of log^2, suites weighing the same and pairs by how sure their variance is, what lies
/// beyond three standard deviations counting as three; their level so that 1.645 of them hold nine pairs in ten.
[[nodiscard]] PairedFit paired_fit(const std::vector<Pair>& pairs);

}  // namespace plan::fit
