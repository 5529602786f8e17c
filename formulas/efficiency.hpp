#pragma once

#include <span>

#include "formulas/cluster.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/units.hpp"

namespace plan {

/// The format of 16 bits that a GPU trains in: bf16, or fp16 of those before Ampere, which have no bf16.
inline DType type_of_16_bits(const Gpu& gpu) {
  return gpu.peak[static_cast<std::size_t>(DType::Bf16)].value > 0 ? DType::Bf16 : DType::Fp16;
}
/// Its dense peak; 0 where none is known.
inline FlopsPerSecond peak_of_16_bits(const Gpu& gpu) {
  return gpu.peak[static_cast<std::size_t>(type_of_16_bits(gpu))];
}

/// `batch` independent products of an m x k by a k x n matrix: 2 m n k batch FLOPs. The product as executed:
/// forward m = tokens, k = in, n = out; data gradient m = tokens, k = out, n = in; weight gradient
/// m = out, n = in, k = tokens.
struct GemmShape {
  double m = 0;
  double n = 0;
  double k = 0;
  double batch = 1;
};

/// Bytes a GEMM must move: both operands once, the result once; a weight gradient reads and writes fp32.
[[nodiscard]] RealBytes gemm_bytes(const GemmShape& shape, DType dtype, Orientation orientation);

/// Time of one GEMM: measured table inside its hull (log-log interpolation of the rate), the fitted roofline scaled
/// to the table's boundary outside it and never above the best measured rate; a share of the data sheet's peak
/// where nothing was measured. A type that the GPU lacks runs as the next wider one. Tensor cores load 16 bytes at
/// once: operands whose rows are no multiple of that feed them in narrower loads, and so much slower.
[[nodiscard]] Seconds gemm_time(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation);

/// Grouped GEMM of `experts` experts with `rows` tokens each. `n` and `k` are the weight's output and input width in
/// every orientation: the three products of one layer differ only in which operand is the result.
[[nodiscard]] Seconds grouped_gemm_time(const Gpu& gpu, double experts, double rows, double n, double k, DType dtype,
                                        Orientation orientation);

/// Seconds of a product by one fit (roofline_law).
[[nodiscard]] Seconds roofline_time(const GemmFit& fit, Flops flops, RealBytes bytes);

/// Grid from plain numbers: rates in FLOP/s, m slowest, k fastest; axes ascend.
[[nodiscard]] GemmGrid make_gemm_grid(std::span<const double> m, std::span<const double> n, std::span<const double> k,
                                      std::span<const double> rates);

/// The fit that gemm_time uses outside the grid, with the data sheet's shares filled in where none was fitted.
[[nodiscard]] GemmFit gemm_fit(const Gpu& gpu, DType dtype, Orientation orientation);

/// The fit that grouped_gemm_time uses, derived from the dense one where none was measured.
[[nodiscard]] GroupedGemmFit grouped_fit(const Gpu& gpu, DType dtype, Orientation orientation);

/// Bytes of a grouped GEMM: tokens in and out, every expert's weight once (fp32, read and written, as a gradient).
[[nodiscard]] RealBytes grouped_gemm_bytes(double experts, double rows, double n, double k, DType dtype,
                                           Orientation orientation);

/// One attention kernel on one rank. Window and packing shorten what a query sees.
struct AttentionWork {
  double batch = 1;    ///< sequences
  double seq = 0;      ///< queries per sequence on this rank
  double context = 0;  ///< average keys a query sees under the causal mask (seq/2 for plain causal)
  double heads = 0;    ///< query heads on this rank
  double qk_dim = 0;
  double v_dim = 0;
};
/// FLOPs the mask leaves: 2 batch heads seq context (qk_dim + v_dim).
[[nodiscard]] Flops attention_flops(const AttentionWork& work);
/// Seconds of a kernel by one fit (attention_law).
[[nodiscard]] Seconds attention_time(const AttentionFit& fit, const AttentionWork& work, bool backward);
/// The fit that the next two use: the GPU's own, or a typical one on its peak rate.
[[nodiscard]] AttentionFit attention_fit(const Gpu& gpu, bool backward);
/// Seconds of the forward kernel.
[[nodiscard]] Seconds attention_forward_time(const Gpu& gpu, const AttentionWork& work);
/// Seconds of the backward kernel: five products against two.
[[nodiscard]] Seconds attention_backward_time(const Gpu& gpu, const AttentionWork& work);

/// Memory-bound work: `bytes` read and written in `kernels` kernels.
[[nodiscard]] Seconds memory_bound_time(const Gpu& gpu, RealBytes bytes, double kernels = 1);

/// Bytes over the wire per rank and byte of collective size, nccl-tests' factor: 2(n-1)/n for all-reduce, (n-1)/n for
/// all-gather, reduce-scatter and all-to-all, 1 for send and broadcast.
[[nodiscard]] double wire_factor(Collective op, double ranks);

/// Time of one fit: soft_sum, corrected by the measured curve where there is one.
[[nodiscard]] Seconds curve_time(const CollectiveFit& fit, RealBytes bytes, double ranks);

inline constexpr double kLeastP = 0.1, kMostP = 10;  ///< of curves that are read or fitted

/// Latency and asymptotic bus bandwidth of `op` on `ranks` GPUs of one scale-up domain, without its curve.
[[nodiscard]] CollectiveFit scale_up_fit(const Gpu& gpu, Collective op, int ranks);

/// Time of `op` on `ranks` GPUs of one scale-up domain: the measured curve, between measured group sizes the
/// geometric mean, beyond the largest one more hop a rank, a share of the link where nothing was measured.
[[nodiscard]] Seconds scale_up_time(const Gpu& gpu, Collective op, RealBytes bytes, int ranks);

/// Time of one collective over `group`, all sibling groups of the same kind running at once (tiers are shared). `bytes`
/// is nccl-tests' size: the full tensor of an all-reduce, the gathered output, the input of a reduce-scatter, one
/// rank's whole buffer in an all-to-all. 0 for groups of one.
[[nodiscard]] Seconds collective_time(const Cluster& cluster, Collective op, RealBytes bytes, Group group);

/// Point-to-point send of `bytes` between two GPUs that tier `tier` is the innermost to hold, 0 the scale-up domain.
[[nodiscard]] Seconds hop_time(const Cluster& cluster, RealBytes bytes, std::size_t tier);

/// Send of `bytes` to the rank `stride` away: the slowest hop round a ring of `ranks`.
[[nodiscard]] Seconds send_time(const Cluster& cluster, RealBytes bytes, int stride, int ranks = 2);

/// Innermost tier that holds the whole group.
[[nodiscard]] const Tier& group_tier(const Cluster& cluster, Group group);

}  // namespace plan
