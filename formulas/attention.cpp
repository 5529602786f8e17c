#include <algorithm>
#include <cstddef>

#include "formulas/efficiency.hpp"

namespace plan {
namespace {

constexpr std::size_t kForward = 0, kBackward = 1;
constexpr double kBackwardFlops = 2.5;  // five GEMMs against two

// Four-parameter fits of A100 to GB300 (hwprobe.md 1.4) agree on the share of the dense bf16 peak; the other three
// are the middle of Hopper's and Blackwell's.
constexpr double kTypicalPeakShare = 0.58;
constexpr double kTypicalS0 = 1200, kTypicalB0 = 20;
constexpr Seconds kTypicalFloor{5.2e-6};
constexpr double kTypicalBackwardShare = 0.75;  // of the forward rate

AttentionFit forward_fit(const Gpu& gpu) {
  const AttentionFit& fit = gpu.attention[kForward];
  if (fit.rate.value > 0) return fit;
  const double bf16 = gpu.peak[static_cast<std::size_t>(DType::Bf16)].value;
  const double fp16 = gpu.peak[static_cast<std::size_t>(DType::Fp16)].value;
  const double peak = bf16 > 0 ? bf16 : fp16 > 0 ? fp16 : 1e12;
  return {.t0 = kTypicalFloor, .rate = FlopsPerSecond(kTypicalPeakShare * peak), .s0 = kTypicalS0, .b0 = kTypicalB0};
}

AttentionFit backward_fit(const Gpu& gpu) {
  const AttentionFit& fit = gpu.attention[kBackward];
  if (fit.rate.value > 0) return fit;
  AttentionFit derived = forward_fit(gpu);
  derived.rate = derived.rate * kTypicalBackwardShare;
  return derived;
}

Seconds kernel_time(const AttentionFit& fit, const AttentionWork& work, double flops) {
  if (flops <= 0) return Seconds(0);
  // The fit's s is the length of a plain causal sequence; what counts is the keys a query meets, half of it.
  const double keys = 2 * work.context;
  const double queries = work.batch * work.heads * work.seq;
  const double slow = (1 + fit.s0 / std::max(keys, 1.0)) * (1 + 1024 * fit.b0 / std::max(queries, 1.0));
  return Seconds(fit.t0.value + flops / fit.rate.value * slow);
}

}  // namespace

double attention_flops(const AttentionWork& w) {
  return 2 * w.batch * w.heads * w.seq * w.context * (w.qk_dim + w.v_dim);
}

Seconds attention_forward_time(const Gpu& gpu, const AttentionWork& work) {
  return kernel_time(forward_fit(gpu), work, attention_flops(work));
}

Seconds attention_backward_time(const Gpu& gpu, const AttentionWork& work) {
  return kernel_time(backward_fit(gpu), work, kBackwardFlops * attention_flops(work));
}

Seconds memory_bound_time(const Gpu& gpu, double bytes, double kernels) {
  if (bytes <= 0 && kernels <= 0) return Seconds(0);
  const double rate = gpu.memory_efficiency * (gpu.memory_bandwidth.value > 0 ? gpu.memory_bandwidth.value : 1e12);
  return Seconds(bytes / rate + kernels * gpu.kernel_floor.value);
}

}  // namespace plan
