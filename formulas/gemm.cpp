// Time of matrix products: one GEMM and the grouped ones of experts, from measured grids, fitted rooflines, or typical
// shares of the data sheet (plan-formulas(7) B1, plan-measuring(7) 1). Assumes that a product
// has the GPU to itself; what training reaches of that is calibrated. Tested by tests/formulas/efficiency_test.cpp.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "formulas/kernel_laws.hpp"

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
  return roofline_law<double>(fit, flops.value, bytes.value);
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
           .rate = FlopsPerSecond(kTypicalRateShare * (peak > 0 ? peak : kUnknownRate)),
           .bandwidth = memory_rate(gpu) * kTypicalBandwidthShare};
  }
  fit.rate = fit.rate * gpu.orientation_ratio[index(dtype)][index(orientation)];
  return fit;
}

GroupedGemmFit grouped_fit(const Gpu& gpu, DType dtype, Orientation orientation) {
  const double dense = gemm_fit(gpu, dtype, orientation).rate.value;
  GroupedGemmFit fit = gpu.grouped_gemm[index(orientation)];
  if (fit.rate.value > 0) {  // measured in bf16
    if (dtype != DType::Bf16) fit.rate = fit.rate * (dense / gemm_fit(gpu, DType::Bf16, orientation).rate.value);
    return fit;
  }
  return {.per_expert = kTypicalPerExpert,
          .rate = FlopsPerSecond(kGroupedOverDense * dense * gpu.sustained[index(dtype)]),
          .bandwidth = gpu.memory_efficiency * memory_rate(gpu)};
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

/// A share of a rate, left out of equations where it is all of it.
template <class V>
V share_of_rate(const char* name, double share, const char* meaning, const char* origin) {
  return share == 1 ? V(1.0) : symbol<V>(name, share, meaning, origin);
}

/// Seconds of a product whose dimensions suit the GPU's tiles, in a format that it multiplies in.
template <class V>
SecondsOf<V> aligned_gemm_law(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation) {
  const auto& tables = gpu.gemm[index(dtype)];
  const bool own = !tables[index(orientation)].grid.empty();
  const GemmGrid& grid = tables[own ? index(orientation) : 0].grid;
  const GemmFit fit = gemm_fit(gpu, dtype, orientation);
  if (grid.empty()) {
    GemmFit kept = fit;
    kept.rate = fit.rate * gpu.sustained[index(dtype)];
    return roofline_law<V>(kept, product_flops<V>(shape),
                           symbol<V>("B", gemm_bytes(shape, dtype, orientation).value,
                                     "bytes: operands once, the result once", kShapeOrigin));
  }
  const double ratio = own ? 1 : gpu.orientation_ratio[index(dtype)][index(orientation)];
  return SecondsOf<V>(
      product_flops<V>(shape) /
      (symbol<V>("R", grid_rate(grid, fit, shape, dtype, orientation), "FLOP/s of this shape alone", kMeasuredKernels) *
       share_of_rate<V>("o", ratio, "rate of this pass over the forward one's", kMeasuredKernels) *
       share_of_rate<V>("z", gpu.sustained[index(dtype)], "share of it that a GPU at full power sustains",
                        kMeasuredKernels)));
}

}  // namespace

template <class V>
SecondsOf<V> gemm_law(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation) {
  dtype = supported(gpu, dtype);
  if (shape.m * shape.n * shape.k * shape.batch <= 0) return SecondsOf<V>(0.0);
  return aligned_gemm_law<V>(gpu, shape, dtype, orientation) /
         share_of_rate<V>("v", alignment_share(shape, dtype, orientation),
                          "share that rows off multiples of 16 bytes leave", kShapeOrigin);
}
template Seconds gemm_law<double>(const Gpu&, const GemmShape&, DType, Orientation);
template Traced gemm_law<Traced>(const Gpu&, const GemmShape&, DType, Orientation);

Seconds gemm_time(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation) {
  return gemm_law<double>(gpu, shape, dtype, orientation);
}

template <class V>
SecondsOf<V> grouped_gemm_law(const Gpu& gpu, const GemmShape& shape, DType dtype, Orientation orientation) {
  dtype = supported(gpu, dtype);
  const RealBytes bytes = grouped_gemm_bytes(shape.batch, shape.m, shape.n, shape.k, dtype, orientation);
  return grouped_law<V>(grouped_fit(gpu, dtype, orientation), shape, bytes);
}
template Traced grouped_gemm_law<Traced>(const Gpu&, const GemmShape&, DType, Orientation);

Seconds grouped_gemm_time(const Gpu& gpu, double experts, double rows, double n, double k, DType dtype,
                          Orientation orientation) {
  if (rows * n * k * experts <= 0) return Seconds(0);
  return grouped_gemm_law<double>(gpu, {rows, n, k, experts}, dtype, orientation);
}

}  // namespace plan
