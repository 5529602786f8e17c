// Fit quality of curves. Tested by tests/hwprobe/quality_test.cpp.
#include "hwprobe/fits/quality.hpp"

#include <cmath>

#include "formulas/efficiency.hpp"

namespace plan {
namespace {

constexpr double kFalling = 0.9;  // a larger message this much faster than a smaller one is no noise
constexpr std::size_t kMostRefits = 40;

CurveQuality of(const FitQuality& q) { return {.points = q.count, .median_err = q.median, .p90_err = q.p90}; }

double error(double predicted, double measured) { return std::abs(predicted / measured - 1); }

}  // namespace

CurveQuality collective_quality(Collective op, int ranks, std::span<const CollectiveSample> samples,
                                const CollectiveFit& fit) {
  std::vector<double> predicted, measured, held_out;
  for (const CollectiveSample& s : samples) {
    predicted.push_back(curve_time(fit, RealBytes(s.bytes), ranks).value);
    measured.push_back(s.seconds);
  }
  for (std::size_t i = 0; samples.size() > 3 && i < samples.size(); ++i) {
    std::vector<CollectiveSample> others(samples.begin(), samples.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const CollectiveFit without = fit_collective(op, ranks, others);
    held_out.push_back(error(curve_time(without, RealBytes(samples[i].bytes), ranks).value, samples[i].seconds));
  }
  CurveQuality quality = of(fit_quality(predicted, measured));
  quality.held_out_err = median(held_out);
  for (std::size_t i = 1; i < samples.size(); ++i)
    if (samples[i].seconds < kFalling * samples[i - 1].seconds) {
      quality.flags.emplace_back("non_monotonic");
      break;
    }
  return quality;
}

CurveQuality gemm_quality(std::span<const GemmSample> samples, const GemmFit& fit) {
  std::vector<double> predicted, measured, held_out;
  for (const GemmSample& s : samples) {
    predicted.push_back(roofline_time(fit, Flops(s.flops), RealBytes(s.bytes)).value);
    measured.push_back(s.seconds);
  }
  const std::size_t step = samples.size() / kMostRefits + 1;
  for (std::size_t i = 0; samples.size() > 5 && i < samples.size(); i += step) {
    std::vector<GemmSample> others(samples.begin(), samples.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    held_out.push_back(
        error(roofline_time(fit_gemm(others, fit), Flops(samples[i].flops), RealBytes(samples[i].bytes)).value,
              samples[i].seconds));
  }
  CurveQuality quality = of(fit_quality(predicted, measured));
  quality.held_out_err = median(held_out);
  return quality;
}

CurveQuality attention_quality(std::span<const AttentionSample> samples, const AttentionFit& fit, bool backward) {
  std::vector<double> predicted, measured;
  for (const AttentionSample& s : samples) {
    predicted.push_back(attention_time(fit, s.work, backward).value);
    measured.push_back(s.seconds);
  }
  return of(fit_quality(predicted, measured));
}

}  // namespace plan
