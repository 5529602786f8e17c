// Points of one GPU: memory, GEMMs, attention, kernels, its link to the host. Grids: plan-measuring(7) 1.2 to 1.6.
// Tested by tests/hwprobe/sweep_test.cpp.
#include <fmt/core.h>
#include <cmath>

#include <array>

#include "formulas/efficiency.hpp"
#include "hwprobe/sweep/sweep_builder.hpp"
#include "hwprobe/sweep/sweep_shapes.hpp"

namespace plan {
namespace {

constexpr double kSustainedSeconds = 3;
constexpr double kPinnedRate = 2.5e9;  // bytes a second that a system pins
constexpr double kMostBytes = 4e9;     // of one buffer
constexpr std::string_view kOrientations3[] = {"tn", "nn", "nt"};

void add_gemm(SweepBuilder& b, std::string_view format, double m, double n, double k, int orientation, int priority) {
  const int code = format_of(format);
  const DType dtype = code >= PLAN_PROBE_NVFP4  ? DType::Fp4
                      : code >= PLAN_PROBE_FP8  ? DType::Fp8
                      : code == PLAN_PROBE_FP16 ? DType::Fp16
                      : code == PLAN_PROBE_FP32 ? DType::Fp32
                                                : DType::Bf16;
  const double seconds =
      gemm_time(b.request.expected.gpu, {m, n, k}, dtype, static_cast<Orientation>(orientation)).value;
  const std::string id = fmt::format("gemm {} {} {:.0f}x{:.0f}x{:.0f}", format,
                                     kOrientations3[static_cast<std::size_t>(orientation)], m, n, k);
  for (const SweepPoint& point : b.sweep.points)
    if (point.id == id) return;
  b.add(Section::Gemm, priority, id, make_point(PLAN_PROBE_GEMM, {m, n, k}, code, orientation), seconds,
        4 * (m * k + n * k + m * n));
}

/// Tokens x widths; the weight gradient has the tokens inside. 27 points where time is short, else 180.
void add_gemm_grid(SweepBuilder& b, std::string_view format, int orientation, int priority) {
  constexpr std::array<double, 5> kTokens{512, 1024, 2048, 4096, 8192};
  constexpr std::array<double, 6> kWidths{512, 1024, 2048, 4096, 8192, 16384};
  const bool full = b.at_least(Depth::Standard);
  for (std::size_t t = 0; t < kTokens.size(); ++t)
    for (std::size_t i = 0; i < kWidths.size(); ++i)
      for (std::size_t j = 0; j < kWidths.size(); ++j) {
        const bool coarse = t % 2 == 0 && i % 2 == 1 && j % 2 == 1;
        if (!coarse && !full) continue;
        const double m = orientation == 2 ? kWidths[i] : kTokens[t];
        const double k = orientation == 2 ? kTokens[t] : kWidths[j];
        const double n = orientation == 2 ? kWidths[j] : kWidths[i];
        add_gemm(b, format, m, n, k, orientation, priority + (coarse ? 0 : 3));
      }
}

}  // namespace

void add_memory(SweepBuilder& b) {
  b.add(Section::Memory, 0, "memory ladder", make_point(PLAN_PROBE_MEMORY, {}), 0.02, 0, 0.5);
}

void add_bandwidth(SweepBuilder& b) {
  const double largest =
      std::min(kMostBytes, 0.2 * std::max(1e9, static_cast<double>(b.request.expected.gpu.memory.value)));
  const auto one = [&](double bytes, int priority) {
    b.add(Section::Bandwidth, priority, fmt::format("copy {:.0f}", bytes), make_point(PLAN_PROBE_COPY, {bytes}),
          2 * bytes / memory_rate(b), 2 * bytes);
  };
  const double rounded = std::exp2(std::floor(std::log2(largest)));
  one(rounded, 0);
  b.add(Section::Bandwidth, 0, fmt::format("triad {:.0f}", rounded / 2), make_point(PLAN_PROBE_TRIAD, {rounded / 2}),
        1.5 * rounded / memory_rate(b), 1.5 * rounded);
  for (double bytes = 1 << 20; bytes < rounded; bytes *= 8) one(bytes, 4);
}

void add_gemms(SweepBuilder& b) {
  for (const std::string& format : b.request.formats) {
    const int code = format_of(format);
    for (const int tp : b.request.tp)
      for (const TrainingGemm& g : training_gemms(b.request.model, tp, b.request.tokens))
        add_gemm(b, format, g.m, g.n, g.k, static_cast<int>(g.orientation), 1);
    for (int o = 0; o < kOrientations; ++o) add_gemm_grid(b, format, o, o == 0 ? 1 : 2);
    plan_probe_point hold = make_point(PLAN_PROBE_SUSTAINED, {8192, 8192, 8192}, code);
    const std::string id = fmt::format("sustained {} 8192x8192x8192", format);
    if (b.done(id)) continue;
    b.add(Section::Gemm, 2, id, hold, 0.002, 6e8, kSustainedSeconds + 0.1);
    b.sweep.points.back().point.max_seconds = kSustainedSeconds;
    b.sweep.points.back().cost_s = kSustainedSeconds + 0.2;
  }
}

void add_attention(SweepBuilder& b) {
  if (!b.request.attention) return;
  const auto one = [&](double heads, double kv, double seq, double dim, int pass, int priority) {
    const AttentionWork work{1, seq, seq / 2, heads, dim, dim};
    const Gpu& gpu = b.request.expected.gpu;
    const double seconds =
        pass == 0 ? attention_forward_time(gpu, work).value : attention_backward_time(gpu, work).value;
    const std::string id =
        fmt::format("attention {} d{:.0f} b1 h{:.0f}/{:.0f} s{:.0f}", pass == 0 ? "fwd" : "bwd", dim, heads, kv, seq);
    for (const SweepPoint& point : b.sweep.points)
      if (point.id == id) return;
    b.add(Section::Attention, priority, id,
          make_point(PLAN_PROBE_ATTENTION, {1, heads, kv, seq, dim}, PLAN_PROBE_BF16, pass), seconds,
          8 * 2 * heads * seq * dim, 0.25);
  };
  for (const int pass : {0, 1}) {
    for (const Layer& layer : b.request.model.kinds)
      for (const int tp : b.request.tp)
        if (layer.mixer == Mixer::Attention && (layer.attention.head_dim == 64 || layer.attention.head_dim == 128))
          one(static_cast<double>(layer.attention.heads / tp),
              static_cast<double>(std::max<std::int64_t>(1, layer.attention.kv_heads / tp)),
              static_cast<double>(b.request.tokens > 0 ? b.request.tokens : b.request.model.default_seq),
              static_cast<double>(layer.attention.head_dim), pass, 1);
    for (const double seq : {1024.0, 4096.0, 16384.0})
      for (const double heads : {4.0, 16.0, 64.0}) one(heads, heads, seq, 128, pass, 2);
    if (!b.at_least(Depth::Standard)) continue;
    for (const double seq : {2048.0, 8192.0, 32768.0})
      for (const double heads : {8.0, 32.0}) {
        one(heads, heads, seq, 128, pass, 3);
        one(heads, heads / 8, seq, 128, pass, 4);
        one(heads, heads, seq, 64, pass, 4);
      }
  }
}

void add_kernels(SweepBuilder& b) {
  for (int kernel = 0; kernel < PLAN_PROBE_KERNELS; ++kernel)
    for (const double elements : {1e6, 8e6, 64e6, 256e6}) {
      const bool ends = elements == 1e6 || elements == 64e6;
      if (!ends && !b.at_least(Depth::Standard)) continue;
      const double bytes = kernel_bytes(kernel, elements);
      b.add(Section::Kernels, ends ? 2 : 4, fmt::format("kernel {} {:.0f}", kernel_name(kernel), elements),
            make_point(PLAN_PROBE_KERNEL, {static_cast<double>(kernel), elements}), 3e-6 + bytes / memory_rate(b),
            bytes);
    }
}

void add_host_link(SweepBuilder& b) {
  constexpr std::string_view kWays[] = {"h2d", "d2h", "bidir"};
  const double rate = b.request.expected.gpu.host_link.value > 0 ? b.request.expected.gpu.host_link.value : 1e10;
  for (int way = 0; way < 3; ++way)
    for (const double bytes : {65536.0, 8388608.0, 268435456.0}) {
      const bool large = bytes == 268435456.0;
      if (!large && !b.at_least(Depth::Standard)) continue;
      b.add(Section::HostLink, large ? 1 : 4, fmt::format("host {} {:.0f}", kWays[way], bytes),
            make_point(PLAN_PROBE_HOST_LINK, {static_cast<double>(way), bytes}), 1e-5 + bytes / rate, 2 * bytes,
            kPerPoint + 2 * bytes / kPinnedRate);
    }
}

}  // namespace plan
