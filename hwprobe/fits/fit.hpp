#pragma once

#include <functional>
#include <span>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/efficiency.hpp"

namespace plan {

/// How far predictions lie from measurements: |predicted / measured - 1|. Never R^2, which one large size decides.
struct FitQuality {
  int count = 0;
  double median = 0;
  double p90 = 0;
  double max = 0;
  double bias = 0;  ///< median of predicted / measured - 1
};
/// Of as many predictions as measurements, which are above 0.
[[nodiscard]] FitQuality fit_quality(std::span<const double> predicted, std::span<const double> measured);

/// Middle value; mean of the two middle ones of an even count. 0 for none.
[[nodiscard]] double median(std::vector<double> values);

/// Positive parameters that make ln(model) closest to ln(measured): Levenberg-Marquardt on the logarithms of the
/// parameters with a soft-L1 loss of scale 0.1, so that a few wild points do not move the fit.
/// `model(parameters, i)` predicts measurement i.
[[nodiscard]] std::vector<double> fit_log(const std::function<double(std::span<const double>, std::size_t)>& model,
                                          std::span<const double> measured, std::vector<double> start);

struct CollectiveSample {
  double bytes = 0;  ///< nccl-tests size
  double seconds = 0;
};
/// Latency, bus bandwidth and p of one curve; p stays 0.62 below eight sizes.
[[nodiscard]] CollectiveFit fit_collective(Collective op, int ranks, std::span<const CollectiveSample> samples);

struct GemmSample {
  double flops = 0;
  double bytes = 0;
  double seconds = 0;
};
/// Roofline of three parameters; the norm is given.
[[nodiscard]] GemmFit fit_gemm(std::span<const GemmSample> samples, const GemmFit& start);

struct AttentionSample {
  AttentionWork work{};
  double seconds = 0;
};
/// Four-parameter law of plan-measuring(7) 1.4; `backward` counts 2.5 times the FLOPs. `d0` is taken from `start`.
[[nodiscard]] AttentionFit fit_attention(std::span<const AttentionSample> samples, const AttentionFit& start,
                                         bool backward);

}  // namespace plan
