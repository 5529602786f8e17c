// Two profiles side by side. Tested by tests/hwprobe/compare_test.cpp.
#include "hwprobe/profile/compare.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "hwprobe/sweep/sweep_points.hpp"

namespace plan {
namespace {

constexpr double kNoise = 0.03;
constexpr std::string_view kOrientationWords[] = {"tn", "nn", "nt"};

/// 8192 is 8k: shapes have to fit a column.
std::string width(double size) {
  return std::fmod(size, 1024) == 0 ? fmt::format("{:.0f}k", size / 1024) : fmt::format("{:.0f}", size);
}

/// Collects figures that both profiles hold.
struct Figures {
  std::vector<FigureChange> changes{};

  void rate(std::string what, std::string unit, Measured before, Measured now) {
    if (before.value <= 0 || now.value <= 0) return;
    const double better = now.value / before.value - 1;
    add(std::move(what), std::move(unit), before.value, now.value, better, before.spread, now.spread);
  }
  void time(std::string what, double before, double now, double spread_before, double spread) {
    if (before <= 0 || now <= 0) return;
    add(std::move(what), "us", before, now, before / now - 1, spread_before, spread);
  }

 private:
  void add(std::string what, std::string unit, double before, double now, double better, double spread_before,
           double spread) {
    const bool beyond = std::abs(better) > std::max(kNoise, spread_before + spread);
    changes.push_back({std::move(what), std::move(unit), before, now, better, spread, beyond});
  }
};

/// The largest shape that both hold.
void gemms(const HardwareProfile& before, const HardwareProfile& now, Figures& figures) {
  for (const ProfileGemm& a : before.gemm)
    for (const ProfileGemm& b : now.gemm) {
      if (a.format != b.format || a.orientation != b.orientation) continue;
      const std::string kind =
          fmt::format("GEMM {} {}", a.format, kOrientationWords[static_cast<std::size_t>(a.orientation)]);
      const GemmPoint *x = nullptr, *y = nullptr;
      for (const GemmPoint& p : a.grid)
        for (const GemmPoint& q : b.grid)
          if (p.m == q.m && p.n == q.n && p.k == q.k && (x == nullptr || p.m * p.n * p.k > x->m * x->n * x->k))
            x = &p, y = &q;
      const auto tflops = [](const GemmPoint& p) { return Measured{2 * p.m * p.n * p.k / p.us / 1e6, p.spread}; };
      if (x != nullptr)
        figures.rate(fmt::format("{} {}x{}x{}", kind, width(x->m), width(x->n), width(x->k)), "TFLOP/s", tflops(*x),
                     tflops(*y));
      figures.rate(kind + " sustained", "TFLOP/s", {a.sustained_tflops, 0}, {b.sustained_tflops, 0});
    }
}

/// Latency at the smallest common size and rate at the largest.
void curves(const HardwareProfile& before, const HardwareProfile& now, Figures& figures) {
  for (const ProfileCurve& a : before.collectives)
    for (const ProfileCurve& b : now.collectives) {
      if (a.op != b.op || a.dtype != b.dtype || a.layout != b.layout) continue;
      std::vector<std::pair<CurvePoint, CurvePoint>> common;
      for (const CurvePoint& p : a.table)
        for (const CurvePoint& q : b.table)
          if (p.bytes == q.bytes) common.emplace_back(p, q);
      if (common.empty()) continue;
      const std::string kind = a.layout.nodes > 1
                                   ? fmt::format("{} {}x{}", name(a.op), a.layout.nodes, a.layout.ranks_per_node)
                                   : fmt::format("{} n={}", name(a.op), a.layout.n);
      const auto& [small, small_now] = common.front();
      const auto& [large, large_now] = common.back();
      const double factor = wire_factor(a.op, a.layout.n);
      const auto busbw = [&](const CurvePoint& p) { return Measured{p.bytes * factor / p.us / 1e3, p.spread}; };
      figures.rate(fmt::format("{} {}", kind, size_text(large.bytes)), "GB/s", busbw(large), busbw(large_now));
      if (common.size() > 1)
        figures.time(fmt::format("{} {}", kind, size_text(small.bytes)), small.us, small_now.us, small.spread,
                     small_now.spread);
    }
}

}  // namespace

std::vector<FigureChange> common_figures(const HardwareProfile& before, const HardwareProfile& now) {
  Figures figures;
  figures.rate("memory usable", "GiB", {before.memory.usable_gib, 0}, {now.memory.usable_gib, 0});
  figures.rate("memory copy", "GB/s", before.hbm.copy, now.hbm.copy);
  figures.rate("memory triad", "GB/s", before.hbm.triad, now.hbm.triad);
  gemms(before, now, figures);
  for (const ProfileAttention& a : before.attention)
    for (const ProfileAttention& b : now.attention)
      if (a.backward == b.backward && a.head_dim == b.head_dim)
        figures.rate(fmt::format("attention {} d{}", a.backward ? "bwd" : "fwd", a.head_dim), "TFLOP/s",
                     {a.fmax_tflops, 0}, {b.fmax_tflops, 0});
  for (const ProfileKernel& a : before.memory_bound)
    for (const ProfileKernel& b : now.memory_bound)
      if (a.op == b.op) figures.rate(a.op, "GB/s", {a.gb_s, a.spread}, {b.gb_s, b.spread});
  figures.rate("host to device", "GB/s", before.host_link.h2d, now.host_link.h2d);
  figures.rate("device to host", "GB/s", before.host_link.d2h, now.host_link.d2h);
  for (const ProfilePair& a : before.pairs)
    for (const ProfilePair& b : now.pairs)
      if (a.from == b.from && a.to == b.to)
        figures.rate(fmt::format("GPU {} to {}", a.from, a.to), "GB/s", {a.gb_s, 0}, {b.gb_s, 0});
  for (const ProfileTier& a : before.tiers)
    for (const ProfileTier& b : now.tiers)
      if (a.id == b.id && !a.id.empty())
        figures.rate(fmt::format("tier {}", a.id), "GB/s", {a.measured_gb_s, 0}, {b.measured_gb_s, 0});
  curves(before, now, figures);
  return std::move(figures.changes);
}

std::vector<FigureChange> compare_profiles(const HardwareProfile& before, const HardwareProfile& now) {
  std::vector<FigureChange> changes = common_figures(before, now);
  std::stable_sort(changes.begin(), changes.end(),
                   [](const FigureChange& a, const FigureChange& b) { return a.better < b.better; });
  return changes;
}

HardwareProfile expected_profile(const HardwareProfile& like, const Cluster& expected) {
  HardwareProfile out = like;
  const Gpu& gpu = expected.gpu;
  out.name = expected.name;
  out.memory = {.usable_gib = static_cast<double>(gpu.memory.value) / kGiB};
  const double copy =
      0.9 * gpu.memory_bandwidth.value / 1e9;  // plan-measuring(7) 5.3: what copies reach of the data sheet
  out.hbm = {.copy = {copy, 0}, .triad = {copy, 0}};
  for (ProfileGemm& g : out.gemm) {
    const DType dtype = g.format.find("fp8") != std::string::npos ? DType::Fp8
                        : g.format == "nvfp4"                     ? DType::Fp4
                        : g.format == "fp16"                      ? DType::Fp16
                        : g.format == "fp32"                      ? DType::Fp32
                                                                  : DType::Bf16;
    Gpu burst = gpu;
    burst.sustained.fill(1);
    for (GemmPoint& p : g.grid) {
      p.us = gemm_time(burst, {p.m, p.n, p.k}, dtype, g.orientation).value * 1e6;
      p.spread = 0;
    }
    const auto held = [&](const Gpu& on) {
      return 2 * 8192.0 * 8192 * 8192 / gemm_time(on, {8192, 8192, 8192}, dtype, g.orientation).value / 1e12;
    };
    if (g.sustained_tflops > 0) g.sustained_tflops = held(gpu), g.burst_tflops = held(burst);
  }
  for (ProfileAttention& a : out.attention) {
    const AttentionFit& fit = gpu.attention[a.backward ? 1 : 0];
    a.fmax_tflops = fit.rate.value / 1e12;
    a.t0_us = fit.t0.value * 1e6;
  }
  for (ProfileKernel& k : out.memory_bound)
    k.gb_s = gpu.memory_efficiency * gpu.memory_bandwidth.value / 1e9, k.spread = 0;
  const double link = 0.88 * gpu.host_link.value / 1e9;
  out.host_link.h2d = out.host_link.d2h = {link, 0};
  for (ProfilePair& p : out.pairs) p.gb_s = 0.88 * gpu.scale_up.value / 1e9;
  for (ProfileCurve& c : out.collectives) {
    const int stride = c.layout.nodes > 1 && c.layout.ranks_per_node == 1 ? std::max(1, expected.scale_up_size()) : 1;
    for (CurvePoint& p : c.table)
      p = {p.bytes, collective_time(expected, c.op, RealBytes(p.bytes), {c.layout.n, stride}).value * 1e6, 0};
  }
  for (ProfileTier& t : out.tiers) t.measured_gb_s = 0.96 * t.per_gpu_gb_s;
  return out;
}

}  // namespace plan
