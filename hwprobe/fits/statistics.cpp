// Medians and spreads of samples. Tested by tests/hwprobe/statistics_test.cpp.
#include "hwprobe/fits/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "hwprobe/fits/fit.hpp"

namespace plan {
namespace {

constexpr double kMadToSigma = 1.4826;      // of a normal distribution
constexpr double kMedianOverMean = 1.2533;  // standard error of the median over that of the mean
constexpr std::size_t kFewestForModes = 8;

}  // namespace

double sample_quantile(std::vector<double> samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(samples.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (at - static_cast<double>(low)) * (samples[high] - samples[low]);
}

Summary summarise(std::vector<double> samples) {
  Summary s;
  s.count = static_cast<int>(samples.size());
  if (samples.empty()) return s;
  s.median = median(samples);
  s.least = sample_quantile(samples, 0);
  s.p90 = sample_quantile(samples, 0.9);
  if (s.median <= 0) return s;
  s.spread = 0.5 * (sample_quantile(samples, 0.95) - sample_quantile(samples, 0.05)) / s.median;
  for (double& x : samples) x = std::abs(x - s.median);
  s.error = 1.96 * kMedianOverMean * kMadToSigma * median(samples) / std::sqrt(s.count) / s.median;
  return s;
}

std::vector<double> slowest_rank(std::span<const std::vector<double>> ranks) {
  std::vector<double> slowest;
  for (const std::vector<double>& rank : ranks) {
    if (rank.empty()) continue;
    if (slowest.empty()) slowest = rank;
    slowest.resize(std::min(slowest.size(), rank.size()));
    for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], rank[i]);
  }
  return slowest;
}

bool bimodal(std::vector<double> samples) {
  if (samples.size() < kFewestForModes) return false;
  std::sort(samples.begin(), samples.end());
  // The widest gap splits the samples into two heaps that both matter, each much narrower than the gap.
  std::size_t split = 1;
  for (std::size_t i = 2; i < samples.size(); ++i)
    if (samples[i] - samples[i - 1] > samples[split] - samples[split - 1]) split = i;
  const double gap = samples[split] - samples[split - 1];
  const std::size_t smaller = std::min(split, samples.size() - split);
  if (smaller * 5 < samples.size()) return false;
  const double low = samples[split - 1] - samples.front(), high = samples.back() - samples[split];
  return gap > 2 * std::max(low, high) && gap > 0.05 * samples.front();
}

}  // namespace plan
