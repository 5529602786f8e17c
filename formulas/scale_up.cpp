// Time of collectives inside one scale-up domain: measured curves, between them the middle in proportion, and a law
// where there is none (plan-formulas(7) E, plan-measuring(7) 2.2). Tested by tests/formulas/efficiency_test.cpp.
#include "formulas/scale_up.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formulas/efficiency.hpp"
#include "formulas/traced.hpp"

namespace plan {
namespace {

// Scale-up defaults as shares of the link rate: middle of the measured Hopper and Blackwell curves.
constexpr double kAllReduceShare = 0.82, kGatherShare = 0.8, kAllToAllShare = 0.72, kSendShare = 0.84;
constexpr double kSendAlpha = 8e-6;

CollectiveFit default_fit(const Gpu& gpu, Collective op, int ranks) {
  CollectiveFit fit{.op = op, .ranks = ranks, .alpha = Seconds(kRingBase + kScaleUpHop * ring_steps(op, ranks))};
  double share = kGatherShare;
  if (op == Collective::AllReduce) share = kAllReduceShare;
  if (op == Collective::AllToAll || op == Collective::SendRecv) {
    fit.alpha = Seconds(kSendAlpha);
    share = op == Collective::AllToAll ? kAllToAllShare : kSendShare;
  }
  fit.busbw = gpu.scale_up.value > 0 ? gpu.scale_up * share : BytesPerSecond(share * 16e9);
  return fit;
}

/// Measured groups of one operation around `ranks`.
struct Neighbours {
  const CollectiveFit* below = nullptr;  ///< at most `ranks`
  const CollectiveFit* above = nullptr;  ///< more than `ranks`
  bool between() const { return below != nullptr && above != nullptr; }
  double share(int ranks) const {
    return std::log(static_cast<double>(ranks) / below->ranks) /
           std::log(static_cast<double>(above->ranks) / below->ranks);
  }
};

Neighbours neighbours(const Gpu& gpu, Collective op, int ranks) {
  Neighbours near;
  for (const CollectiveFit& fit : gpu.collectives) {
    if (fit.op != measured_like(op)) continue;
    if (fit.ranks <= ranks && (near.below == nullptr || fit.ranks > near.below->ranks)) near.below = &fit;
    if (fit.ranks > ranks && (near.above == nullptr || fit.ranks < near.above->ranks)) near.above = &fit;
  }
  if (near.below != nullptr && near.below->ranks == ranks) near.above = nullptr;
  return near;
}

/// Latency of the hops that a ring of `ranks` has more than one of `measured`.
Seconds extra_hops(Collective op, int ranks, int measured) {
  if (op == Collective::AllToAll || op == Collective::SendRecv) return Seconds(0);
  return Seconds(kScaleUpHop * std::max(0.0, ring_steps(op, ranks) - ring_steps(op, measured)));
}

}  // namespace

double wire_factor(Collective op, double ranks) {
  switch (op) {
    case Collective::AllReduce: return 2 * (ranks - 1) / ranks;
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::AllToAll: return (ranks - 1) / ranks;
    case Collective::SendRecv:
    case Collective::Broadcast: return 1;
  }
  return 1;
}

Seconds curve_time(const CollectiveFit& fit, RealBytes bytes, double ranks) {
  const double law = soft_sum(fit.alpha.value, bytes.value * wire_factor(fit.op, ranks) / fit.busbw.value, fit.p);
  const auto& xs = fit.log_bytes;
  if (xs.empty()) return Seconds(law);
  const auto x = static_cast<float>(std::log(bytes.value));
  float log_ratio = x <= xs.front() ? fit.log_ratio.front() : fit.log_ratio.back();
  if (x > xs.front() && x < xs.back()) {
    const auto i = static_cast<std::size_t>(std::upper_bound(xs.begin(), xs.end(), x) - xs.begin());
    const float share = (x - xs[i - 1]) / (xs[i] - xs[i - 1]);
    log_ratio = fit.log_ratio[i - 1] + share * (fit.log_ratio[i] - fit.log_ratio[i - 1]);
  }
  return Seconds(law * std::exp(static_cast<double>(log_ratio)));
}

CollectiveFit scale_up_fit(const Gpu& gpu, Collective op, int ranks) {
  const Neighbours near = neighbours(gpu, op, ranks);
  const auto law = [](const CollectiveFit& f) {
    return CollectiveFit{f.op, f.ranks, f.alpha, f.busbw, f.p, f.provenance, {}, {}};
  };
  if (near.below == nullptr && near.above == nullptr) return default_fit(gpu, op, ranks);
  CollectiveFit fit = law(near.below != nullptr ? *near.below : *near.above);
  if (near.between()) {
    const double share = near.share(ranks);
    fit.alpha += share * (near.above->alpha - fit.alpha);
    fit.busbw += share * (near.above->busbw - fit.busbw);
    fit.p += share * (near.above->p - fit.p);
  } else {
    fit.alpha += extra_hops(op, ranks, fit.ranks);
  }
  fit.op = op;
  fit.ranks = ranks;
  return fit;
}

Seconds scale_up_time(const Gpu& gpu, Collective op, RealBytes bytes, int ranks) {
  const Neighbours near = neighbours(gpu, op, ranks);
  if (near.below == nullptr && near.above == nullptr) return curve_time(default_fit(gpu, op, ranks), bytes, ranks);
  if (near.between()) {
    const double lower = curve_time(*near.below, bytes, near.below->ranks).value;
    const double upper = curve_time(*near.above, bytes, near.above->ranks).value;
    return Seconds(lower * std::pow(upper / lower, near.share(ranks)));
  }
  const CollectiveFit& fit = near.below != nullptr ? *near.below : *near.above;
  return curve_time(fit, bytes, ranks) + extra_hops(op, ranks, fit.ranks);
}

namespace {

/// Where the last dip of a measured curve ends. The law's own growth, in log-log, rises with the bytes: between two
/// points it is least at the first.
double last_dip(const CollectiveFit& fit) {
  const auto& xs = fit.log_bytes;
  for (std::size_t i = xs.size(); i-- > 1;) {
    const double transfer = std::exp(xs[i - 1]) * wire_factor(fit.op, fit.ranks) / fit.busbw.value;
    const double ratio = std::pow(fit.alpha.value / transfer, fit.p);
    const double slope = (fit.log_ratio[i] - fit.log_ratio[i - 1]) / (xs[i] - xs[i - 1]);
    if (!(slope + 1 / (1 + ratio) >= 0)) return std::exp(xs[i]);
  }
  return 0;
}

}  // namespace

RealBytes grows_from(const Cluster& cluster) {
  if (!cluster.network.empty()) return RealBytes(std::numeric_limits<double>::infinity());
  double bytes = 0;
  for (const CollectiveFit& fit : cluster.gpu.collectives) bytes = std::max(bytes, last_dip(fit));
  return RealBytes(bytes);
}

}  // namespace plan
