// What no measurement of a GPU can say: a slip of a digit or of a unit in a profile. Tested by
// tests/presets/hardware_physics_test.cpp.
#include "presets/hardware_physics.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "presets/hardware.hpp"

namespace plan {
namespace {

/// Cards clock higher than their data sheets say, caches help copies, and switches add up for collectives; a slip is
/// larger than any of these. Memory is rounded.
constexpr double kBeyond = 1.5, kBeyondByCaches = 4, kRounded = 1.01;
/// Hosts of another make have other links than the data sheet's: Power9's NVLink, Grace's. Both ways add up.
constexpr double kBeyondByHost = 16;
/// Nothing that a GPU does for itself is as slow as this against its data sheet. Unfused kernels may be slower, as are
/// narrow slots and networks of 10 Gb/s that a host's GPUs share; and others may leave little of its memory.
constexpr double kBelow = 1.0 / 50, kFarBelow = 1.0 / 500;
/// What a bridge between two cards in PCIe slots carries per direction: NVIDIA's data sheets of A100 PCIe, H100 PCIe.
constexpr BytesPerSecond kBridge{300e9};
/// Microseconds before the first byte of anything, and those of each rank that takes part in a collective.
constexpr double kMostLatency = 1e4, kMostLatencyOfRank = 100;

class Sheet {
 public:
  explicit Sheet(const Gpu& gpu) : gpu_(gpu) {}

  void hold(const std::string& key, double stated, double most, double beyond, std::string_view unit) {
    if (most > 0 && stated > beyond * most) refuse(key, stated, most, unit);
  }
  /// 0 is what was not measured.
  void hold_least(const std::string& key, double stated, double most, double below, std::string_view unit) {
    if (most > 0 && stated > 0 && stated < below * most) refuse(key, stated, most, unit);
  }
  void hold_latency(const std::string& key, double us, double most = kMostLatency) {
    if (us <= most) return;
    errors_.push_back({"beyond_data_sheet",
                       fmt::format("`{}` is {:.4g} ms, and nothing takes so long to begin", key, us / 1e3),
                       {},
                       {"a digit or a unit may be wrong: it is in microseconds"},
                       {}});
  }
  /// TFLOP/s of products in a format; those without a peak of their own run at no higher one than any.
  [[nodiscard]] double peak(std::string_view format) const {
    const auto own = gpu_.peak[static_cast<std::size_t>(dtype_of_format(format))].value;
    const auto most = [](FlopsPerSecond a, FlopsPerSecond b) { return a.value < b.value; };
    const double any = std::max_element(gpu_.peak.begin(), gpu_.peak.end(), most)->value;
    return (own > 0 && dtype_of_format(format) != DType::Fp32 ? own : any) / 1e12;
  }
  /// The same where no tensor core helps: of formats without a peak of their own the least that the card has.
  [[nodiscard]] double least_peak(std::string_view format) const {
    const auto own = gpu_.peak[static_cast<std::size_t>(dtype_of_format(format))].value;
    double least = own;
    for (const FlopsPerSecond peak : gpu_.peak)
      if (own <= 0 && peak.value > 0) least = least > 0 ? std::min(least, peak.value) : peak.value;
    return least / 1e12;
  }
  /// GPUs that no link joins meet over their hosts, and so do those whose links are off.
  [[nodiscard]] BytesPerSecond over_host() const {
    return gpu_.host_link.value > 0 ? std::min(gpu_.scale_up, gpu_.host_link) : gpu_.scale_up;
  }
  /// Cards in PCIe slots may have a bridge, which their data sheet's rate is not of.
  [[nodiscard]] BytesPerSecond link() const {
    const bool in_slot = gpu_.scale_up <= gpu_.host_link;
    return in_slot ? std::max(gpu_.scale_up, kBridge) : gpu_.scale_up;
  }
  [[nodiscard]] const Gpu& gpu() const { return gpu_; }
  [[nodiscard]] Errors errors() && { return std::move(errors_); }

 private:
  void refuse(const std::string& key, double stated, double most, std::string_view unit) {
    errors_.push_back({"beyond_data_sheet",
                       fmt::format("`{}` comes to {:.4g} {}, and {} has {:.4g}", key, stated, unit, gpu_.name, most),
                       {},
                       {"a digit or a unit may be wrong; a key that is left out is taken from the data sheet"},
                       {}});
  }

  const Gpu& gpu_;
  Errors errors_{};
};

void hold_products(const HardwareProfile& profile, Sheet& sheet) {
  for (std::size_t i = 0; i < profile.gemm.size(); ++i) {
    const ProfileGemm& gemm = profile.gemm[i];
    const double peak = sheet.peak(gemm.format), least = sheet.least_peak(gemm.format);
    const bool fits = grade(gemm.quality) != "unfit";
    const auto key = [&](std::string_view name) { return fmt::format("gemm[{}].{}", i, name); };
    const auto rate = [&](std::string_view name, double tflops, bool large) {
      sheet.hold(key(name), tflops, peak, kBeyond, "TFLOP/s");
      if (large) sheet.hold_least(key(name), tflops, least, kBelow, "TFLOP/s");
    };
    if (fits) rate("roofline.f_tflops", gemm.f_tflops, true);
    rate("sustained_tflops", gemm.sustained_tflops, true);
    rate("burst_tflops", gemm.burst_tflops, true);
    for (std::size_t row = 0; row < gemm.grid.size(); ++row) {
      const GemmPoint& point = gemm.grid[row];
      rate(fmt::format("grid[{}]", row), 2 * point.m * point.n * point.k / point.us / 1e6, false);
    }
    if (fits) sheet.hold_latency(key("roofline.t0_us"), gemm.t0_us);
    const double memory = sheet.gpu().memory_bandwidth.value / 1e12;
    // No most: few products depend on it, and a fit to those that do not leaves it as large as it likes.
    if (fits) sheet.hold_least(key("roofline.w_tb_s"), gemm.w_tb_s, memory, kBelow, "TB/s");
  }
  for (std::size_t i = 0; i < profile.attention.size(); ++i) {
    const ProfileAttention& attention = profile.attention[i];
    const std::string key = fmt::format("attention[{}].fit.fmax_tflops", i);
    sheet.hold(key, attention.fmax_tflops, sheet.peak("bf16"), kBeyond, "TFLOP/s");
    if (grade(attention.quality) == "unfit") continue;
    sheet.hold_least(key, attention.fmax_tflops, sheet.least_peak("bf16"), kFarBelow, "TFLOP/s");
    sheet.hold_latency(fmt::format("attention[{}].fit.t0_us", i), attention.t0_us);
  }
}

void hold_rate(Sheet& sheet, const std::string& key, double gb_s, BytesPerSecond most, double beyond) {
  sheet.hold(key, gb_s, most.value / 1e9, beyond, "GB/s");
}
void hold_least_rate(Sheet& sheet, const std::string& key, double gb_s, BytesPerSecond most, double below) {
  sheet.hold_least(key, gb_s, most.value / 1e9, below, "GB/s");
}

void hold_memory(const HardwareProfile& profile, Sheet& sheet) {
  const double memory = static_cast<double>(sheet.gpu().memory.value) / 0x1p30;
  const double total = profile.memory.total_gib > 0 ? profile.memory.total_gib : kBeyond * memory;
  sheet.hold("memory.total_gib", profile.memory.total_gib, memory, kBeyond, "GiB");
  sheet.hold_least("memory.total_gib", profile.memory.total_gib, memory, kBelow, "GiB");
  sheet.hold("memory.usable_gib", profile.memory.usable_gib, total, kRounded, "GiB");
  sheet.hold_least("memory.usable_gib", profile.memory.usable_gib, memory, kFarBelow, "GiB");
  sheet.hold("memory.context_gib", profile.memory.context_gib, memory, 1, "GiB");
  sheet.hold("memory.cublas_workspace_gib", profile.memory.cublas_workspace_gib, memory, 1, "GiB");
  for (std::size_t i = 0; i < profile.nccl_memory.size(); ++i)
    sheet.hold(fmt::format("nccl_memory[{}].gib", i), profile.nccl_memory[i].gib, memory, 1, "GiB");
  const BytesPerSecond bandwidth = sheet.gpu().memory_bandwidth;
  for (const auto& [key, gb_s] :
       {std::pair("hbm.copy_gb_s", profile.hbm.copy.value), std::pair("hbm.triad_gb_s", profile.hbm.triad.value)}) {
    hold_rate(sheet, key, gb_s, bandwidth, kBeyond);
    hold_least_rate(sheet, key, gb_s, bandwidth, kBelow);
  }
  sheet.hold_latency("hbm.fixed_us", profile.hbm.fixed_us);
  for (std::size_t i = 0; i < profile.memory_bound.size(); ++i) {
    const ProfileKernel& kernel = profile.memory_bound[i];
    const std::string key = fmt::format("memory_bound[{}].gb_s", i);
    hold_rate(sheet, key, kernel.gb_s, bandwidth, kBeyondByCaches);
    hold_least_rate(sheet, key, kernel.gb_s, bandwidth, kFarBelow);
    sheet.hold_latency(fmt::format("memory_bound[{}].fixed_us", i), kernel.fixed_us);
  }
}

void hold_links(const HardwareProfile& profile, Sheet& sheet) {
  const ProfileHostLink& host = profile.host_link;
  for (const auto& [key, gb_s] :
       {std::pair("host_link.h2d_gb_s", host.h2d.value), std::pair("host_link.d2h_gb_s", host.d2h.value),
        std::pair("host_link.bidir_total_gb_s", host.bidir.value)}) {
    hold_rate(sheet, key, gb_s, sheet.gpu().host_link, kBeyondByHost);
    hold_least_rate(sheet, key, gb_s, sheet.gpu().host_link, kFarBelow);
  }
  for (std::size_t i = 0; i < profile.pairs.size(); ++i) {
    const std::string key = fmt::format("pairs[{}].gb_s", i);
    hold_rate(sheet, key, profile.pairs[i].gb_s, sheet.link(), kBeyondByCaches);
    hold_least_rate(sheet, key, profile.pairs[i].gb_s, sheet.over_host(), kBelow);
    sheet.hold_latency(fmt::format("pairs[{}].latency_us", i), profile.pairs[i].latency_us);
  }
  const BytesPerSecond nic = sheet.gpu().nic;
  for (std::size_t i = 0; i < profile.tiers.size(); ++i) {
    const ProfileTier& tier = profile.tiers[i];
    const bool network = tier.kind == "scale_out";
    const BytesPerSecond stated(tier.per_gpu_gb_s * 1e9), slow = network ? nic : sheet.over_host();
    const double below = network ? kFarBelow : kBelow;
    const auto key = [&](std::string_view name) { return fmt::format("tiers[{}].{}", i, name); };
    hold_rate(sheet, key("per_gpu_gb_s"), tier.per_gpu_gb_s, std::max(sheet.link(), nic), kBeyondByCaches);
    hold_least_rate(sheet, key("per_gpu_gb_s"), tier.per_gpu_gb_s, slow, below);
    const bool bridged = !network && stated.value > 0 && sheet.link().value > sheet.gpu().scale_up.value;
    hold_rate(sheet, key("measured_gb_s_per_gpu"), tier.measured_gb_s, bridged ? std::max(stated, kBridge) : stated,
              kBeyond);
    hold_least_rate(sheet, key("measured_gb_s_per_gpu"), tier.measured_gb_s, slow, below);
    sheet.hold_latency(key("latency_us"), tier.latency_us);
  }
}

void hold_collectives(const HardwareProfile& profile, Sheet& sheet) {
  const BytesPerSecond link = std::max(sheet.link(), sheet.gpu().nic);
  for (std::size_t i = 0; i < profile.collectives.size(); ++i) {
    const ProfileCurve& curve = profile.collectives[i];
    const bool network = curve.layout.nodes > 1;
    const std::string key = fmt::format("collectives[{}].fit.busbw_gb_s", i);
    hold_rate(sheet, key, curve.busbw_gb_s, link, kBeyondByCaches);
    for (std::size_t row = 0; row < curve.table.size(); ++row)
      hold_rate(sheet, fmt::format("collectives[{}].table[{}]", i, row),
                curve.table[row].bytes / curve.table[row].us / 1e3, link, kBeyondByCaches);
    if (grade(curve.quality) == "unfit") continue;
    hold_least_rate(sheet, key, curve.busbw_gb_s, network ? sheet.gpu().nic : sheet.over_host(),
                    network ? kFarBelow : kBelow);
    sheet.hold_latency(fmt::format("collectives[{}].fit.alpha_us", i), curve.alpha_us,
                       std::max(kMostLatency, kMostLatencyOfRank * curve.layout.n));
  }
}

}  // namespace

Errors beyond_data_sheet(const HardwareProfile& profile, const Gpu& data_sheet) {
  Sheet sheet(data_sheet);
  hold_products(profile, sheet);
  hold_memory(profile, sheet);
  hold_links(profile, sheet);
  hold_collectives(profile, sheet);
  return std::move(sheet).errors();
}

}  // namespace plan
