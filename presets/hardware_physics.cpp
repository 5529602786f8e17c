// What no measurement of a GPU can say: a slip of a digit or of a unit in a profile. Tested by
// tests/presets/hardware_profile_test.cpp.
#include "presets/hardware_physics.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "presets/hardware.hpp"

namespace plan {
namespace {

/// Cards clock higher than their data sheets say, caches help copies, and switches add up for collectives; a slip is
/// larger than any of these.
constexpr double kBeyond = 1.5, kBeyondByCaches = 4;

class Sheet {
 public:
  explicit Sheet(const Gpu& gpu) : gpu_(gpu) {}

  void hold(const std::string& key, double stated, double most, double beyond, std::string_view unit) {
    if (most <= 0 || stated <= beyond * most) return;
    errors_.push_back({"beyond_data_sheet",
                       fmt::format("`{}` comes to {:.4g} {}, and {} has {:.4g}", key, stated, unit, gpu_.name, most),
                       {},
                       {"a digit or a unit may be wrong; a key that is left out is taken from the data sheet"},
                       {}});
  }
  /// TFLOP/s of products in a format; those without a peak of their own run at no higher one than any.
  [[nodiscard]] double peak(std::string_view format) const {
    const auto own = gpu_.peak[static_cast<std::size_t>(dtype_of_format(format))].value;
    const auto most = [](FlopsPerSecond a, FlopsPerSecond b) { return a.value < b.value; };
    const double any = std::max_element(gpu_.peak.begin(), gpu_.peak.end(), most)->value;
    return (own > 0 && dtype_of_format(format) != DType::Fp32 ? own : any) / 1e12;
  }
  [[nodiscard]] Errors errors() && { return std::move(errors_); }

 private:
  const Gpu& gpu_;
  Errors errors_{};
};

void hold_products(const HardwareProfile& profile, Sheet& sheet) {
  for (std::size_t i = 0; i < profile.gemm.size(); ++i) {
    const ProfileGemm& gemm = profile.gemm[i];
    const double peak = sheet.peak(gemm.format);
    const auto rate = [&](std::string_view key, double tflops) {
      sheet.hold(fmt::format("gemm[{}].{}", i, key), tflops, peak, kBeyond, "TFLOP/s");
    };
    rate("roofline.f_tflops", gemm.f_tflops), rate("sustained_tflops", gemm.sustained_tflops);
    rate("burst_tflops", gemm.burst_tflops);
    for (std::size_t row = 0; row < gemm.grid.size(); ++row) {
      const GemmPoint& point = gemm.grid[row];
      rate(fmt::format("grid[{}]", row), 2 * point.m * point.n * point.k / point.us / 1e6);
    }
  }
  for (std::size_t i = 0; i < profile.attention.size(); ++i)
    sheet.hold(fmt::format("attention[{}].fit.fmax_tflops", i), profile.attention[i].fmax_tflops, sheet.peak("bf16"),
               kBeyond, "TFLOP/s");
}

}  // namespace

Errors beyond_data_sheet(const HardwareProfile& profile, const Gpu& data_sheet) {
  Sheet sheet(data_sheet);
  hold_products(profile, sheet);
  const double memory = static_cast<double>(data_sheet.memory.value) / 0x1p30;
  sheet.hold("memory.total_gib", profile.memory.total_gib, memory, kBeyond, "GiB");
  sheet.hold("memory.usable_gib", profile.memory.usable_gib,
             profile.memory.total_gib > 0 ? profile.memory.total_gib : kBeyond * memory, 1, "GiB");
  const auto rate = [&](const std::string& key, double gb_s, BytesPerSecond most, double beyond) {
    sheet.hold(key, gb_s, most.value / 1e9, beyond, "GB/s");
  };
  rate("hbm.copy_gb_s", profile.hbm.copy.value, data_sheet.memory_bandwidth, kBeyond);
  rate("hbm.triad_gb_s", profile.hbm.triad.value, data_sheet.memory_bandwidth, kBeyond);
  for (std::size_t i = 0; i < profile.memory_bound.size(); ++i)
    rate(fmt::format("memory_bound[{}].gb_s", i), profile.memory_bound[i].gb_s, data_sheet.memory_bandwidth,
         kBeyondByCaches);
  for (std::size_t i = 0; i < profile.pairs.size(); ++i)
    rate(fmt::format("pairs[{}].gb_s", i), profile.pairs[i].gb_s, data_sheet.scale_up, kBeyondByCaches);
  for (std::size_t i = 0; i < profile.tiers.size(); ++i)
    rate(fmt::format("tiers[{}].per_gpu_gb_s", i), profile.tiers[i].per_gpu_gb_s,
         std::max(data_sheet.scale_up, data_sheet.nic), kBeyondByCaches);
  for (std::size_t i = 0; i < profile.collectives.size(); ++i) {
    const ProfileCurve& curve = profile.collectives[i];
    const BytesPerSecond link = std::max(data_sheet.scale_up, data_sheet.nic);
    rate(fmt::format("collectives[{}].fit.busbw_gb_s", i), curve.busbw_gb_s, link, kBeyondByCaches);
    for (std::size_t row = 0; row < curve.table.size(); ++row)
      rate(fmt::format("collectives[{}].table[{}]", i, row), curve.table[row].bytes / curve.table[row].us / 1e3, link,
           kBeyondByCaches);
  }
  for (std::size_t i = 0; i < profile.tiers.size(); ++i)
    rate(fmt::format("tiers[{}].measured_gb_s_per_gpu", i), profile.tiers[i].measured_gb_s,
         BytesPerSecond(profile.tiers[i].per_gpu_gb_s * 1e9), kBeyond);
  return std::move(sheet).errors();
}

}  // namespace plan
