#pragma once

#include <span>
#include <string>
#include <vector>

namespace plan {

/// Samples of one point, put together by the rules of plan-measuring(7) 1.0.
struct Summary {
  int count = 0;
  double median = 0;
  double least = 0;
  double p90 = 0;
  double spread = 0;  ///< half width of the middle 90 %, share of the median
  double error = 0;   ///< of the median: 1.96 * 1.2533 * sigma / sqrt(n), sigma from the MAD, share of the median
};
[[nodiscard]] Summary summarise(std::vector<double> samples);

/// Value below which `share` of the samples lie, interpolated; 0 for none.
[[nodiscard]] double sample_quantile(std::vector<double> samples, double share);

/// Samples of one operation on several ranks: for each repetition the slowest rank, because the job waits for it.
/// Ranks with fewer repetitions cut the others short.
[[nodiscard]] std::vector<double> slowest_rank(std::span<const std::vector<double>> ranks);

/// Two heaps with a gap between them: a median then describes neither.
[[nodiscard]] bool bimodal(std::vector<double> samples);

}  // namespace plan
