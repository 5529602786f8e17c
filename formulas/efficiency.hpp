#pragma once

#include "formulas/cluster.hpp"
#include "formulas/units.hpp"

namespace plan {

/// `batch` independent products of an m x k by a k x n matrix: 2 m n k batch FLOPs.
struct GemmShape {
  double m = 0;
  double n = 0;
  double k = 0;
  double batch = 1;
};

/// Time of one GEMM: measured table inside its hull (log-log interpolation of the rate), fitted
/// roofline outside it, inherited rates where the GPU was never measured.
[[nodiscard]] Seconds gemm_time(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation);

/// Grouped GEMM of `experts` experts with `rows` rows each (m = rows).
[[nodiscard]] Seconds grouped_gemm_time(const Gpu& gpu, double experts, double rows, double n, double k, DType dtype,
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
[[nodiscard]] Seconds attention_forward_time(const Gpu& gpu, const AttentionWork& work);
/// Backward kernel: five GEMMs against two.
[[nodiscard]] Seconds attention_backward_time(const Gpu& gpu, const AttentionWork& work);

/// Memory-bound work: `bytes` read and written in `kernels` kernels.
[[nodiscard]] Seconds memory_bound_time(const Gpu& gpu, double bytes, double kernels = 1);

/// Time of one collective of `bytes` full (unsharded) size over `group`, all sibling groups of the
/// same kind running at once (tiers are shared). 0 for groups of one.
[[nodiscard]] Seconds collective_time(const Cluster& cluster, Collective op, double bytes, Group group);

/// Point-to-point send of `bytes` to the rank `stride` away.
[[nodiscard]] Seconds send_time(const Cluster& cluster, double bytes, int stride);

/// Innermost tier that holds the whole group.
[[nodiscard]] const Tier& group_tier(const Cluster& cluster, Group group);

}  // namespace plan
