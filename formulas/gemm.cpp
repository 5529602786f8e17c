#include <algorithm>
#include <cmath>
#include <cstddef>

#include "formulas/efficiency.hpp"

namespace plan {
namespace {

// Shares of the data sheet that an unmeasured GPU reaches: middle of the GPUs with measured grids
// (presets/efficiency): sustained rate of large shapes over dense peak, roofline bandwidth over HBM.
constexpr double kTypicalRateShare = 0.70;
constexpr double kTypicalBandwidthShare = 0.6;
constexpr Seconds kTypicalGemmFloor{2.8e-6};
/// Of what a narrower format should gain over a measured 16-bit rate, where nobody measured it: fp8 on AMD's GPUs
/// reaches about half in training.
constexpr double kUnmeasuredGain = 0.5;

// Grouped GEMMs against dense ones, where none were measured: launch per expert and asymptotic rate on B200.
constexpr Seconds kTypicalPerExpert{3.6e-6};
constexpr double kGroupedOverDense = 1.0;

/// Tensor cores load vectors of 16 bytes: 8 elements of 16 bits. Where rows are a multiple of fewer, narrower loads
/// feed them (NVIDIA, Matrix Multiplication Background, section 4.1: "multiples of 8 elements"). Half as wide cost
/// the square root: with 50,257 columns of logits nanoGPT's step of 124M parameters takes a quarter
/// longer than with 50,304 (github.com/karpathy/nanoGPT), a third of whose products are the logits'.
constexpr double kAlignedBytes = 16, kAlignmentPower = 0.5;

std::size_t index(DType dtype) { return static_cast<std::size_t>(dtype); }
std::size_t index(Orientation orientation) { return static_cast<std::size_t>(orientation); }

double operand_bytes(DType dtype) {
  switch (dtype) {
    case DType::Fp32: return 4;
    case DType::Fp16:
    case DType::Bf16: return 2;
    case DType::Fp8: return 1;
    case DType::Fp4: return 0.5;
  }
  return 2;
}

double result_bytes(DType dtype, Orientation orientation) {
  if (orientation == Orientation::WeightGrad) return 8;  // accumulated in fp32: read and written
  return dtype == DType::Fp32 ? 4 : 2;
}

/// The type whose tables say how fast `dtype` runs: itself, fp16 and bf16 for one another, else the next wider type
/// that the GPU has a peak for.
DType supported(const Gpu& gpu, DType dtype) {
  const auto measured = [&](DType d) { return gpu.gemm[index(d)][0].fit.rate.value > 0; };
  if (dtype == DType::Fp16 && !measured(dtype) && measured(DType::Bf16)) return DType::Bf16;
  if (dtype == DType::Bf16 && !measured(dtype) && measured(DType::Fp16)) return DType::Fp16;
  const auto has = [&](DType d) { return gpu.peak[index(d)].value > 0 || gpu.gemm[index(d)][0].fit.rate.value > 0; };
  if (dtype == DType::Fp4 && !has(dtype)) dtype = DType::Fp8;
  if (dtype == DType::Fp8 && !has(dtype)) dtype = DType::Bf16;
  if (dtype == DType::Bf16 && !has(dtype)) dtype = DType::Fp16;
  if (dtype == DType::Fp16 && !has(dtype)) dtype = has(DType::Bf16) ? DType::Bf16 : DType::Fp32;
  return dtype;
}

struct Cell {
  std::size_t lower = 0;
  std::size_t upper = 0;
  float share = 0;  ///< of the upper node
};

/// Cell of an ascending axis that holds `x`, clamped to the ends.
Cell locate(const std::vector<float>& axis, float x) {
  if (x <= axis.front()) return {};
  if (x >= axis.back()) return {axis.size() - 1, axis.size() - 1, 0};
  const auto upper = static_cast<std::size_t>(std::upper_bound(axis.begin(), axis.end(), x) - axis.begin());
  return {upper - 1, upper, (x - axis[upper - 1]) / (axis[upper] - axis[upper - 1])};
}

float interpolate(const GemmGrid& grid, float log_m, float log_n, float log_k) {
  const Cell m = locate(grid.log_m, log_m), n = locate(grid.log_n, log_n), k = locate(grid.log_k, log_k);
  const std::size_t width = grid.log_k.size(), plane = width * grid.log_n.size();
  const auto at_k = [&](std::size_t i, std::size_t j) {
    const float* row = grid.log_rate.data() + i * plane + j * width;
    return row[k.lower] + k.share * (row[k.upper] - row[k.lower]);
  };
  const auto at_nk = [&](std::size_t i) {
    const float lower = at_k(i, n.lower);
    return lower + n.share * (at_k(i, n.upper) - lower);
  };
  const float lower = at_nk(m.lower);
  return lower + m.share * (at_nk(m.upper) - lower);
}

double clamp_to(const std::vector<float>& log_axis, double x, double log_x) {
  if (log_x < log_axis.front()) return std::exp(static_cast<double>(log_axis.front()));
  if (log_x > log_axis.back()) return std::exp(static_cast<double>(log_axis.back()));
  return x;
}

/// Rate on the grid; outside it, the boundary's rate scaled by what the roofline says of the step outwards.
double grid_rate(const GemmGrid& grid, const GemmFit& fit, const GemmShape& shape, DType dtype, Orientation o) {
  const double rows = shape.m * shape.batch;  // tiles to share out count over the whole batch
  const double lm = std::log(rows), ln = std::log(shape.n), lk = std::log(shape.k);
  const float log_rate = interpolate(grid, static_cast<float>(lm), static_cast<float>(ln), static_cast<float>(lk));
  const GemmShape inside{clamp_to(grid.log_m, rows, lm), clamp_to(grid.log_n, shape.n, ln),
                         clamp_to(grid.log_k, shape.k, lk)};
  if (shape.batch == 1 && inside.m == shape.m && inside.n == shape.n && inside.k == shape.k)
    return std::exp(static_cast<double>(log_rate));
  const auto fitted = [&](const GemmShape& s) {
    const double flops = 2 * s.m * s.n * s.k * s.batch;
    return flops / roofline_time(fit, Flops(flops), gemm_bytes(s, dtype, o)).value;
  };
  return std::min(std::exp(static_cast<double>(log_rate)) * fitted(shape) / fitted(inside),
                  std::exp(static_cast<double>(grid.log_best)));
}

}  // namespace

RealBytes gemm_bytes(const GemmShape& s, DType dtype, Orientation orientation) {
  return RealBytes(s.batch *
                   (operand_bytes(dtype) * (s.m * s.k + s.k * s.n) + result_bytes(dtype, orientation) * s.m * s.n));
}

RealBytes grouped_gemm_bytes(double experts, double rows, double n, double k, DType dtype, Orientation orientation) {
  // The weight is the result of the weight gradient (fp32, read and written) and an operand otherwise.
  const double weight =
      orientation == Orientation::WeightGrad ? result_bytes(dtype, orientation) : operand_bytes(dtype);
  const bool forward = orientation == Orientation::Forward;
  const double in = forward ? k : n, out = forward ? n : k;
  const double tokens =
      orientation == Orientation::WeightGrad ? operand_bytes(dtype) * (n + k) : operand_bytes(dtype) * in + 2 * out;
  return RealBytes(experts * (weight * n * k + tokens * rows));
}

Seconds roofline_time(const GemmFit& fit, Flops flops, RealBytes bytes) {
  const double compute = (flops / fit.rate).value, traffic = (bytes / fit.bandwidth).value;
  const double larger = std::max(compute, traffic), smaller = std::min(compute, traffic);
  if (larger <= 0) return fit.t0;
  const double ratio = smaller / larger;
  const double shared = fit.norm == 4 ? std::sqrt(std::sqrt(1 + ratio * ratio * ratio * ratio))
                                      : std::pow(1 + std::pow(ratio, fit.norm), 1 / fit.norm);
  return Seconds(fit.t0.value + larger * shared);
}

GemmGrid make_gemm_grid(std::span<const double> m, std::span<const double> n, std::span<const double> k,
                        std::span<const double> rates) {
  GemmGrid grid;
  const auto logs = [](std::span<const double> from, std::vector<float>& to) {
    to.reserve(from.size());
    for (const double x : from) to.push_back(static_cast<float>(std::log(x)));
  };
  logs(m, grid.log_m);
  logs(n, grid.log_n);
  logs(k, grid.log_k);
  logs(rates, grid.log_rate);
  if (!rates.empty()) grid.log_best = *std::max_element(grid.log_rate.begin(), grid.log_rate.end());
  return grid;
}

GemmFit gemm_fit(const Gpu& gpu, DType dtype, Orientation orientation) {
  const auto& tables = gpu.gemm[index(dtype)];
  GemmFit fit = tables[index(orientation)].fit;
  if (fit.rate.value > 0) return fit;
  fit = tables[index(Orientation::Forward)].fit;
  if (fit.rate.value <= 0) {
    const double peak = gpu.peak[index(dtype)].value;
    const GemmFit& wider = gpu.gemm[index(DType::Bf16)][0].fit;
    const double wider_peak = gpu.peak[index(DType::Bf16)].value;
    if ((dtype == DType::Fp8 || dtype == DType::Fp4) && wider.rate.value > 0 && wider_peak > 0 && peak > wider_peak) {
      fit = wider;
      fit.rate = wider.rate * (1 + kUnmeasuredGain * (peak / wider_peak - 1));
      fit.rate = fit.rate * gpu.orientation_ratio[index(dtype)][index(orientation)];
      return fit;
    }
    fit = {.t0 = kTypicalGemmFloor,
           .rate = FlopsPerSecond(kTypicalRateShare * (peak > 0 ? peak : 1e12)),
           .bandwidth = gpu.memory_bandwidth.value > 0 ? gpu.memory_bandwidth * kTypicalBandwidthShare
                                                       : BytesPerSecond(kTypicalBandwidthShare * 1e12)};
  }
  fit.rate = fit.rate * gpu.orientation_ratio[index(dtype)][index(orientation)];
  return fit;
}

Seconds grouped_time(const GroupedGemmFit& fit, double experts, Flops flops, RealBytes bytes) {
  return Seconds(experts * fit.per_expert.value + std::hypot((flops / fit.rate).value, (bytes / fit.bandwidth).value));
}

GroupedGemmFit grouped_fit(const Gpu& gpu, DType dtype, Orientation orientation) {
  const double dense = gemm_fit(gpu, dtype, orientation).rate.value;
  GroupedGemmFit fit = gpu.grouped_gemm[index(orientation)];
  if (fit.rate.value > 0) {  // measured in bf16
    if (dtype != DType::Bf16) fit.rate = fit.rate * (dense / gemm_fit(gpu, DType::Bf16, orientation).rate.value);
    return fit;
  }
  const double hbm = gpu.memory_bandwidth.value > 0 ? gpu.memory_bandwidth.value : 1e12;
  return {.per_expert = kTypicalPerExpert,
          .rate = FlopsPerSecond(kGroupedOverDense * dense * gpu.sustained[index(dtype)]),
          .bandwidth = BytesPerSecond(gpu.memory_efficiency * hbm)};
}

namespace {

/// Share of an aligned GEMM's rate.
double alignment_share(const GemmShape& shape, DType dtype, Orientation orientation) {
  // Of the extents along which operands lie in memory: of a linear's forward pass the inner one alone, of its data
  // gradient that and its result's, of its weight gradient both of its result's. Batches are of attention's products.
  const bool linear = orientation == Orientation::Forward && shape.batch == 1;
  const double first = orientation == Orientation::WeightGrad ? shape.m : shape.k;
  const double second = linear ? first : shape.n;
  const double whole = kAlignedBytes / operand_bytes(dtype);
  const auto share = [&](double extent) {
    double elements = whole;
    while (elements > 1 && std::fmod(extent, elements) != 0) elements /= 2;
    return elements / whole;
  };
  return std::pow(std::min(share(first), share(second)), kAlignmentPower);
}

/// Of an aligned GEMM of a type that the GPU has.
Seconds aligned_gemm_time(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation) {
  const double flops = 2 * shape.m * shape.n * shape.k * shape.batch;
  if (flops <= 0) return Seconds(0);
  const auto& tables = gpu.gemm[index(dtype)];
  const bool own = !tables[index(orientation)].grid.empty();
  const GemmGrid& grid = tables[own ? index(orientation) : 0].grid;
  const GemmFit fit = gemm_fit(gpu, dtype, orientation);
  if (grid.empty()) {
    GemmFit kept = fit;
    kept.rate = fit.rate * gpu.sustained[index(dtype)];
    return roofline_time(kept, Flops(flops), gemm_bytes(shape, dtype, orientation));
  }
  const double ratio = own ? 1 : gpu.orientation_ratio[index(dtype)][index(orientation)];
  return Seconds(flops / (grid_rate(grid, fit, shape, dtype, orientation) * ratio * gpu.sustained[index(dtype)]));
}

}  // namespace

Seconds gemm_time(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation) {
  dtype = supported(gpu, dtype);
  return aligned_gemm_time(gpu, shape, dtype, orientation) / alignment_share(shape, dtype, orientation);
}

Seconds grouped_gemm_time(const Gpu& gpu, double experts, double rows, double n, double k, DType dtype,
                          Orientation orientation) {
  const double flops = 2 * rows * n * k * experts;
  if (flops <= 0) return Seconds(0);
  dtype = supported(gpu, dtype);
  const RealBytes bytes = grouped_gemm_bytes(experts, rows, n, k, dtype, orientation);
  const GroupedGemmFit fit = grouped_fit(gpu, dtype, orientation);
  return grouped_time(fit, experts, Flops(flops), bytes);
}

}  // namespace plan
