#pragma once

#include <span>

#include "formulas/hardware_profile.hpp"
#include "hwprobe/fits/fit.hpp"

namespace plan {

/// How far a fitted curve lies from its points, and how far each point from a fit through the others;
/// plan-measuring(7) 2.2.
[[nodiscard]] CurveQuality collective_quality(Collective op, int ranks, std::span<const CollectiveSample> samples,
                                              const CollectiveFit& fit);
[[nodiscard]] CurveQuality gemm_quality(std::span<const GemmSample> samples, const GemmFit& fit);
[[nodiscard]] CurveQuality attention_quality(std::span<const AttentionSample> samples, const AttentionFit& fit,
                                             bool backward);

}  // namespace plan
