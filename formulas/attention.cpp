#include <algorithm>
#include <cstddef>

#include "formulas/efficiency.hpp"

namespace plan {
namespace {

constexpr std::size_t kForward = 0, kBackward = 1;
constexpr double kBackwardFlops = 2.5;  // five GEMMs against two
constexpr double kFittedDim = 128;      // head size of every published table

// Four-parameter fits of A100 to GB300 (plan-measuring(7) 1.4) agree on the share of the dense bf16 peak; the other
// three are the middle of Hopper's and Blackwell's.
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

}  // namespace

Flops attention_flops(const AttentionWork& w) {
  return Flops(2 * w.batch * w.heads * w.seq * w.context * (w.qk_dim + w.v_dim));
}

Flops attention_kernel_flops(const AttentionWork& w, bool backward) {
  const Flops forward(4 * w.batch * w.heads * w.seq * w.context * std::max(w.qk_dim, w.v_dim));
  return backward ? kBackwardFlops * forward : forward;
}

Seconds attention_time(const AttentionFit& fit, const AttentionWork& w, bool backward) {
  const Flops flops = attention_kernel_flops(w, backward);
  if (flops <= Flops(0)) return Seconds(0);
  // The fit's s is the length of a plain causal sequence; what counts is the keys a query meets, half of it.
  const double keys = 2 * w.context;
  const double rows = w.batch * w.heads * w.seq;
  const double dim = std::max(w.qk_dim, w.v_dim);
  const double slow = (1 + fit.s0 / keys) * (1 + 1024 * fit.b0 / rows) * (1 + fit.d0 / dim) / (1 + fit.d0 / kFittedDim);
  return fit.t0 + flops / fit.rate * slow;
}

Seconds attention_forward_time(const Gpu& gpu, const AttentionWork& work) {
  return attention_time(forward_fit(gpu), work, false);
}

Seconds attention_backward_time(const Gpu& gpu, const AttentionWork& work) {
  return attention_time(backward_fit(gpu), work, true);
}

Seconds memory_bound_time(const Gpu& gpu, RealBytes bytes, double kernels) {
  return Seconds(memory_bound_law<double>(gpu, bytes.value, kernels));
}

}  // namespace plan
