#pragma once

#include <algorithm>

#include "formulas/collective_law.hpp"
#include "formulas/efficiency.hpp"
#include "formulas/traced.hpp"

/// The laws under the times of efficiency.hpp, each written once (traced.hpp): with V = double what the search and the
/// fits of measurements compute, with V = Traced what `plan explain` prints of a kernel and `plan formula` of the law
/// (efficiency_laws.cpp).
namespace plan {

/// Origin of what was measured of a GPU; who prints it knows which one.
inline constexpr const char* kMeasuredKernels = "measured kernels";

/// Bytes a second of a memory whose data sheet nobody entered, and FLOP/s of a matrix unit.
inline constexpr double kUnknownRate = 1e12;

/// Bytes a second of a GPU's memory by its data sheet.
inline BytesPerSecond memory_rate(const Gpu& gpu) {
  return gpu.memory_bandwidth.value > 0 ? gpu.memory_bandwidth : BytesPerSecond(kUnknownRate);
}

/// FLOPs of one matrix product, or of a batch of them.
template <class V>
V product_flops(const GemmShape& shape) {
  const V one = 2.0 * symbol<V>("m", shape.m, "rows of the result", kShapeOrigin) *
                symbol<V>("n", shape.n, "its columns", kShapeOrigin) *
                symbol<V>("k", shape.k, "length of the sums", kShapeOrigin);
  return shape.batch == 1 ? one : one * symbol<V>("b", shape.batch, "products at once", kShapeOrigin);
}

/// A roofline with a soft knee: t0 + ((flops / rate)^norm + (bytes / bandwidth)^norm)^(1/norm).
template <class V>
SecondsOf<V> roofline_law(const GemmFit& fit, const V& flops, const V& bytes) {
  const V compute = flops / symbol<V>("F", fit.rate.value, "FLOP/s of large products", kMeasuredKernels);
  const V traffic = bytes / symbol<V>("W", fit.bandwidth.value, "bytes a second", kMeasuredKernels);
  return SecondsOf<V>(symbol<V>("t_0", fit.t0.value, "seconds of an empty kernel", kMeasuredKernels) +
                      soft_sum(compute, traffic, V(fit.norm)));
}

/// One product, whose rate is interpolated between measured shapes, or the roofline's where none were measured.
template <class V>
SecondsOf<V> gemm_law(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation);
extern template Seconds gemm_law<double>(const Gpu&, const GemmShape&, DType, Orientation);
extern template Traced gemm_law<Traced>(const Gpu&, const GemmShape&, DType, Orientation);

/// The products of `shape.batch` experts with `shape.m` tokens each: a launch for each of them, and a knee so soft that
/// computing and reading the weights add up as sides of a right angle.
template <class V>
SecondsOf<V> grouped_law(const GroupedGemmFit& fit, const GemmShape& shape, RealBytes moved) {
  const V experts = symbol<V>("E", shape.batch, "experts of the rank", kShapeOrigin);
  const V flops = 2.0 * symbol<V>("m", shape.m, "rows of each", kShapeOrigin) *
                  symbol<V>("n", shape.n, "width out", kShapeOrigin) *
                  symbol<V>("k", shape.k, "width in", kShapeOrigin) * experts;
  const V bytes = symbol<V>("B", moved.value, "bytes: tokens once, every expert's weight once", kShapeOrigin);
  return SecondsOf<V>(
      experts * symbol<V>("t_e", fit.per_expert.value, "seconds of an expert's launch", kMeasuredKernels) +
      soft_sum(flops / symbol<V>("F", fit.rate.value, "FLOP/s of large products", kMeasuredKernels),
               bytes / symbol<V>("W", fit.bandwidth.value, "bytes a second", kMeasuredKernels), V(2.0)));
}

/// The products of experts on a GPU, by its own fit or one derived from its dense products.
template <class V>
SecondsOf<V> grouped_gemm_law(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation);
extern template Traced grouped_gemm_law<Traced>(const Gpu&, const GemmShape&, DType, Orientation);

/// A fused attention kernel: short sequences, few rows and the softmax leave it below the rate of large ones.
/// Heads are padded to the wider of the two dims (MLA's 192/128 costs as 192/192, which is what B200's measured 0.83 of
/// the 128/128 rate says).
template <class V>
SecondsOf<V> attention_law(const AttentionFit& fit, const AttentionWork& work, bool backward) {
  constexpr double kBackwardFlops = 2.5;  // five products against two
  constexpr double kFittedDim = 128;      // head size of every published table
  const V batch = symbol<V>("b", work.batch, "sequences", kShapeOrigin);
  const V heads = symbol<V>("a", work.heads, "query heads on the rank", kShapeOrigin);
  const V seq = symbol<V>("s", work.seq, "queries of a sequence on the rank", kShapeOrigin);
  const V context = symbol<V>("c", work.context, "keys that an average query sees", kShapeOrigin);
  const V dim = symbol<V>("d", std::max(work.qk_dim, work.v_dim), "width of a head", "model");
  const V forward = 4.0 * batch * heads * seq * context * dim;
  const V flops = backward ? kBackwardFlops * forward : forward;
  // The fit's length is that of a plain causal sequence; what counts is the keys a query meets, half of it.
  const V length =
      1.0 + symbol<V>("s0", fit.s0, "length at which half the rate is left", kMeasuredKernels) / (2.0 * context);
  const V rows = 1.0 + 1024.0 * symbol<V>("b0", fit.b0, "1,024 rows at which half the rate is left", kMeasuredKernels) /
                           (batch * heads * seq);
  const V softmax = symbol<V>("d0", fit.d0, "head width below which the softmax weighs more", kMeasuredKernels);
  const V slow = length * rows * (1.0 + softmax / dim) / (1.0 + softmax / kFittedDim);
  return SecondsOf<V>(symbol<V>("t_0", fit.t0.value, "seconds of an empty kernel", kMeasuredKernels) +
                      flops / symbol<V>("F", fit.rate.value, "FLOP/s of large kernels", kMeasuredKernels) * slow);
}

/// Work bound by memory: `bytes` read and written in `kernels` kernels.
template <class V>
SecondsOf<V> memory_bound_law(const Gpu& gpu, const V& bytes, const V& kernels) {
  const V rate = symbol<V>("e", gpu.memory_efficiency, "share of the bandwidth that kernels reach", "GPU preset") *
                 symbol<V>("W", memory_rate(gpu).value, "bytes a second of memory", "GPU preset");
  return SecondsOf<V>(bytes / rate +
                      kernels * symbol<V>("t_0", gpu.kernel_floor.value, "least seconds of a kernel", "GPU preset"));
}

/// The chunked scan of Mamba or DeltaNet, `runs` times.
template <class V>
SecondsOf<V> scan_law(const V& runs, Flops flops, FlopsPerSecond rate) {
  return SecondsOf<V>(runs * symbol<V>("F", flops.value, "FLOPs of the chunked scan", kShapeOrigin) /
                      symbol<V>("A", rate.value, "FLOP/s of its small products", kConstantsOrigin));
}

/// What the host takes to launch kernels one after another, each in the same `gap_us` microseconds whatever it does and
/// whatever comes before it; fitted to step times of published runs (presets/calibration.yaml).
template <class V>
SecondsOf<V> launch_law(const V& kernels, const V& gap_us) {
  return SecondsOf<V>(kernels * gap_us * 1e-6);
}

/// What the GPU waits for a host that needs `launches` seconds for its launches: the part that no work hides.
template <class V>
SecondsOf<V> launch_wait_law(const SecondsOf<V>& launches, Seconds busy) {
  return launches - symbol<SecondsOf<V>>("w", busy, "seconds of these kernels and messages", "plan explain compute");
}

/// A collective: latency and `transfer`, seconds of its bytes at the rate of large messages, with a soft knee.
template <class V>
SecondsOf<V> message_law(const CollectiveLaw& law, const V& transfer, const char* origin) {
  return SecondsOf<V>(soft_sum(symbol<V>("alpha", law.alpha.value, "seconds of a message without bytes", origin),
                               transfer, symbol<V>("p", law.p, "sharpness of the knee between the two", origin)));
}

/// Seconds of one collective over `group` in training: collective_time, scaled to the share of the measured rate that
/// training reaches inside a scale-up domain or across several.
template <class V>
SecondsOf<V> collective_seconds(const Cluster& cluster, Collective op, RealBytes bytes, Group group);
/// The same of one send to the rank `stride` away.
template <class V>
SecondsOf<V> send_seconds(const Cluster& cluster, RealBytes bytes, int stride, int ranks = 2);
/// From one rank of a group to the next, the slowest of them.
template <class V>
SecondsOf<V> send_seconds(const Cluster& cluster, RealBytes bytes, Group group);
/// The same of one hand-over across tier `tier`.
template <class V>
SecondsOf<V> hop_seconds(const Cluster& cluster, RealBytes bytes, std::size_t tier);

}  // namespace plan
