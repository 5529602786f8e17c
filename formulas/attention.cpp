// Time of fused attention kernels, and of work bound by memory (plan-formulas(7) B1, plan-measuring(7) 1.4): a
// four-parameter fit, the GPU's own where its kernels were measured. Assumes the causal mask, and that what a window or
// packing hides of it costs nothing. Tested by tests/formulas/efficiency_test.cpp.
#include <cstddef>

#include "formulas/kernel_laws.hpp"

namespace plan {
namespace {

constexpr std::size_t kForward = 0, kBackward = 1;

// Four-parameter fits of A100 to GB300 (plan-measuring(7) 1.4) agree on the share of the dense bf16 peak; the other
// three are the middle of Hopper's and Blackwell's, whose backward kernels need shorter sequences than their forward
// ones.
constexpr double kTypicalPeakShare = 0.58;
constexpr double kTypicalS0 = 1000, kTypicalB0 = 20;
constexpr double kTypicalBackwardS0 = 340, kTypicalBackwardB0 = 12;
constexpr Seconds kTypicalFloor{5.2e-6};
constexpr double kTypicalBackwardShare = 0.75;  // of the forward rate

AttentionFit forward_fit(const Gpu& gpu) {
  const AttentionFit& fit = gpu.attention[kForward];
  if (fit.rate.value > 0) return fit;
  const double known = peak_of_16_bits(gpu).value, peak = known > 0 ? known : kUnknownRate;
  return {.t0 = kTypicalFloor, .rate = FlopsPerSecond(kTypicalPeakShare * peak), .s0 = kTypicalS0, .b0 = kTypicalB0};
}

AttentionFit backward_fit(const Gpu& gpu) {
  const AttentionFit& fit = gpu.attention[kBackward];
  if (fit.rate.value > 0) return fit;
  const AttentionFit forward = forward_fit(gpu);
  AttentionFit derived = forward;
  derived.rate = forward.rate * kTypicalBackwardShare;
  if (gpu.attention[kForward].rate.value <= 0) derived.s0 = kTypicalBackwardS0, derived.b0 = kTypicalBackwardB0;
  return derived;
}

}  // namespace

Flops attention_flops(const AttentionWork& w) {
  return Flops(2 * w.batch * w.heads * w.seq * w.context * (w.qk_dim + w.v_dim));
}

AttentionFit attention_fit(const Gpu& gpu, bool backward) { return backward ? backward_fit(gpu) : forward_fit(gpu); }

Seconds attention_time(const AttentionFit& fit, const AttentionWork& w, bool backward) {
  if (attention_flops(w) <= Flops(0)) return Seconds(0);
  return attention_law<double>(fit, w, backward);
}

Seconds attention_forward_time(const Gpu& gpu, const AttentionWork& work) {
  return attention_time(attention_fit(gpu, false), work, false);
}

Seconds attention_backward_time(const Gpu& gpu, const AttentionWork& work) {
  return attention_time(attention_fit(gpu, true), work, true);
}

Seconds memory_bound_time(const Gpu& gpu, RealBytes bytes, double kernels) {
  return memory_bound_law<double>(gpu, bytes.value, kernels);
}

}  // namespace plan
