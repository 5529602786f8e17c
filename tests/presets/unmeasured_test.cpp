// A GPU that nobody measured is priced by shares of its data sheet, which formulas/gemm.cpp, attention.cpp and
// scale_up.cpp hold. Oracle: GPUs that were measured, priced as if they had not been.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "formulas/efficiency.hpp"
#include "presets/store.hpp"

namespace {
using namespace plan;

constexpr auto kBf16 = static_cast<std::size_t>(DType::Bf16);

/// The GPUs of NVIDIA's that have tables of their own: the makers of whose GPUs most was published.
std::vector<Gpu> measured_gpus() {
  std::vector<Gpu> all;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, StoreOptions{})) {
    const Gpu gpu = load_gpu(entry.name, StoreOptions{})->value;
    if (gpu.vendor == "nvidia" && gpu.measured_as.empty() && !gpu.efficiency.empty()) all.push_back(gpu);
  }
  return all;
}

Gpu unmeasured(const Gpu& gpu) {
  const Gpu none;
  Gpu twin = gpu;
  twin.gemm = none.gemm, twin.attention = none.attention, twin.collectives.clear();
  twin.grouped_gemm = none.grouped_gemm, twin.orientation_ratio = none.orientation_ratio;
  return twin;
}

/// Logarithms of a time as if nobody had measured it over the measured one.
struct Ratios {
  std::vector<double> logs{};
  void add(Seconds twin, Seconds measured) { logs.push_back(std::log(twin.value / measured.value)); }
  /// What typical numbers are off by in the mean.
  double bias() const {
    double sum = 0;
    for (const double log : logs) sum += log;
    return std::exp(sum / static_cast<double>(logs.size()));
  }
};

}  // namespace

TEST_CASE(
    "attention that nobody measured is off by a quarter at most in the mean, short and long, of few heads or many") {
  for (const double seq : {512.0, 2048.0, 8192.0, 65536.0})
    for (const double heads : {4.0, 64.0}) {
      CAPTURE(seq);
      CAPTURE(heads);
      const AttentionWork work{1, seq, seq / 2, heads, 128, 128};
      Ratios forward;
      double least = 1e300, most = 0, typical = 0;  // of times of backwards in those that the peak would take
      for (const Gpu& gpu : measured_gpus()) {
        if (gpu.attention[0].rate.value <= 0) continue;
        const Gpu twin = unmeasured(gpu);
        forward.add(attention_forward_time(twin, work), attention_forward_time(gpu, work));
        const double peak = gpu.peak[kBf16].value;
        least = std::min(least, attention_backward_time(gpu, work).value * peak);
        most = std::max(most, attention_backward_time(gpu, work).value * peak);
        typical += attention_backward_time(twin, work).value * peak;
      }
      REQUIRE(forward.logs.size() >= 5);
      CHECK(std::abs(std::log(forward.bias())) < std::log(1.25));
      // Backwards of Hopper and of Blackwell differ threefold where sequences are short, and the typical one has
      // Hopper's slope and Blackwell's rate.
      typical /= static_cast<double>(forward.logs.size());
      CHECK(typical >= least);
      CHECK(typical <= 1.5 * most);
    }
}

TEST_CASE("products that nobody measured are off by a quarter at most in the mean, thin and wide") {
  for (const double size : {256.0, 1024.0, 4096.0, 16384.0})
    for (const double rows : {64.0, 1024.0, 16384.0}) {
      CAPTURE(size);
      CAPTURE(rows);
      Ratios dense, grouped;
      for (const Gpu& gpu : measured_gpus()) {
        const Gpu twin = unmeasured(gpu);
        if (gpu.gemm[kBf16][0].fit.rate.value > 0)
          dense.add(gemm_time(twin, {rows, size, size}, DType::Bf16, Orientation::Forward),
                    gemm_time(gpu, {rows, size, size}, DType::Bf16, Orientation::Forward));
        if (gpu.grouped_gemm[0].rate.value > 0)
          grouped.add(grouped_gemm_time(twin, 16, rows, size, 4096, DType::Bf16, Orientation::Forward),
                      grouped_gemm_time(gpu, 16, rows, size, 4096, DType::Bf16, Orientation::Forward));
      }
      REQUIRE(dense.logs.size() >= 5);
      REQUIRE(grouped.logs.size() >= 1);
      CHECK(std::abs(std::log(dense.bias())) < std::log(1.25));
      CHECK(std::abs(std::log(grouped.bias())) < std::log(1.25));
    }
}

TEST_CASE("collectives over NVLink that nobody measured are off by a third at most in the mean") {
  for (const Collective op :
       {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll})
    for (const double bytes : {8192.0, 1048576.0, 268435456.0}) {
      CAPTURE(static_cast<int>(op));
      CAPTURE(bytes);
      Ratios all;
      for (const Gpu& gpu : measured_gpus()) {
        if (gpu.scale_up.value < 200e9) continue;  // over PCIe, or in a mesh
        const Gpu twin = unmeasured(gpu);
        for (const CollectiveFit& fit : gpu.collectives)
          if (fit.op == op)
            all.add(scale_up_time(twin, op, RealBytes(bytes), fit.ranks),
                    scale_up_time(gpu, op, RealBytes(bytes), fit.ranks));
      }
      REQUIRE(all.logs.size() >= 5);
      CHECK(std::abs(std::log(all.bias())) < std::log(4.0 / 3));
    }
}
