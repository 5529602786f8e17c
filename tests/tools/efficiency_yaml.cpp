#include "tests/tools/efficiency_yaml.hpp"

#include <fmt/core.h>

#include <cmath>

#include "formulas/names.hpp"

namespace plan::derive {
namespace {

constexpr const char* kOrientationWords[] = {"forward", "data_grad", "weight_grad"};

std::string axis_text(const std::vector<float>& logs) {
  std::string text;
  for (const float x : logs)
    text += fmt::format("{}{}", text.empty() ? "" : " ", std::lround(std::exp(static_cast<double>(x))));
  return text;
}

/// One line for each (m, n), k along the line.
std::string grid_text(const GemmGrid& grid) {
  std::string text;
  for (std::size_t i = 0; i < grid.log_rate.size(); ++i) {
    text += i % grid.log_k.size() == 0 ? "\n      " : " ";
    text += fmt::format("{:.4g}", std::exp(static_cast<double>(grid.log_rate[i])) / 1e12);
  }
  return text;
}

std::string fit_text(const GemmFit& fit) {
  return fmt::format("{{floor: {:.4g} us, rate: {:.4g} TFLOP/s, bandwidth: {:.4g} GB/s}}", fit.t0.value * 1e6,
                     fit.rate.value / 1e12, fit.bandwidth.value / 1e9);
}

std::string reference_text(const Subject& s) {
  std::string text = "reference: {";
  if (s.bf16 > 0) text += fmt::format("bf16: {:.5g} TFLOP/s, ", s.bf16 / 1e12);
  if (s.fp8 > 0) text += fmt::format("fp8: {:.5g} TFLOP/s, ", s.fp8 / 1e12);
  if (s.fp4 > 0) text += fmt::format("fp4: {:.5g} TFLOP/s, ", s.fp4 / 1e12);
  return text +
         fmt::format("memory_bandwidth: {:.5g} GB/s, scale_up: {:.5g} GB/s}}\n", s.memory / 1e9, s.scale_up / 1e9);
}

std::string sustained_text(const Derived& d) {
  if (d.sources.find("sustained") == d.sources.end()) return "";
  std::string text = fmt::format("sustained:\n  source: \"{}\"\n", d.sources.at("sustained"));
  for (std::size_t i = 0; i < kDTypes; ++i)
    if (d.gpu.sustained[i] != 1) text += fmt::format("  {}: {:.3f}\n", kDTypeNames[i].name, d.gpu.sustained[i]);
  return text;
}

std::string gemm_text(const Derived& d) {
  std::string text;
  const std::pair<DType, const char*> types[] = {{DType::Bf16, "bfloat16"}, {DType::Fp8, "fp8"}, {DType::Fp4, "nvfp4"}};
  for (const auto& [dtype, word] : types) {
    const GemmTable& table = d.gpu.gemm[static_cast<std::size_t>(dtype)][0];
    if (table.fit.rate.value <= 0) continue;
    text += fmt::format("  - dtype: {}\n    source: \"{}\"\n    fit: {}\n", name(dtype),
                        d.sources.at(std::string("gemm.") + word), fit_text(table.fit));
    if (table.grid.empty()) continue;
    text += fmt::format("    m: {}\n    n: {}\n    k: {}\n    tflops: |{}\n", axis_text(table.grid.log_m),
                        axis_text(table.grid.log_n), axis_text(table.grid.log_k), grid_text(table.grid));
  }
  return text.empty() ? "" : "gemm:\n" + text;
}

std::string orientation_text(const Derived& d) {
  if (d.sources.find("orientation") == d.sources.end()) return "";
  std::string text = fmt::format("orientation_ratio:\n  source: \"{}\"\n", d.sources.at("orientation"));
  for (std::size_t i = 0; i < kDTypes; ++i) {
    const auto& r = d.gpu.orientation_ratio[i];
    if (r[1] != 1 || r[2] != 1)
      text += fmt::format("  {}: {{data_grad: {:.3f}, weight_grad: {:.3f}}}\n", kDTypeNames[i].name, r[1], r[2]);
  }
  return text;
}

std::string grouped_text(const Derived& d) {
  if (d.gpu.grouped_gemm[0].rate.value <= 0) return "";
  std::string text = fmt::format("grouped_gemm:\n  source: \"{}\"\n", d.sources.at("grouped_gemm"));
  for (std::size_t o = 0; o < kOrientations; ++o) {
    const GroupedGemmFit& fit = d.gpu.grouped_gemm[o];
    text +=
        fmt::format("  {}: {{per_expert: {:.3g} us, rate: {:.4g} TFLOP/s, bandwidth: {:.4g} GB/s}}\n",
                    kOrientationWords[o], fit.per_expert.value * 1e6, fit.rate.value / 1e12, fit.bandwidth.value / 1e9);
  }
  return text;
}

std::string attention_text(const Derived& d) {
  if (d.gpu.attention[0].rate.value <= 0) return "";
  std::string text = fmt::format("attention:\n  source: \"{}\"\n", d.sources.at("attention"));
  for (std::size_t pass = 0; pass < 2; ++pass) {
    const AttentionFit& fit = d.gpu.attention[pass];
    text += fmt::format("  {}: {{floor: {:.3g} us, rate: {:.4g} TFLOP/s, s0: {:.4g}, b0: {:.3g}, d0: {:.3g}}}\n",
                        pass == 0 ? "forward" : "backward", fit.t0.value * 1e6, fit.rate.value / 1e12, fit.s0, fit.b0,
                        fit.d0);
  }
  return text;
}

std::string collectives_text(const Derived& d) {
  if (d.gpu.collectives.empty()) return "";
  std::string text = fmt::format("collectives:\n  source: \"{}\"\n  bytes:", d.sources.at("collectives"));
  for (const CollectiveSample& s : d.curves.begin()->second) text += fmt::format(" {:.0f}", s.bytes);
  text += "\n  curves:\n";
  for (const CollectiveFit& fit : d.gpu.collectives) {
    text += fmt::format("    - {{op: {}, ranks: {}, alpha: {:.3g} us, busbw: {:.4g} GB/s, p: {:.3g},\n       us:",
                        name(fit.op), fit.ranks, fit.alpha.value * 1e6, fit.busbw.value / 1e9, fit.p);
    for (const CollectiveSample& s : d.curves.at(fmt::format("{} {}", csv_name(fit.op), fit.ranks)))
      text += fmt::format(" {:.4g}", s.seconds * 1e6);
    text += "}\n";
  }
  return text;
}

}  // namespace

std::string to_yaml(const Derived& d) {
  std::string text =
      "# Derived from tests/published/hardware.csv by tests/tools/derive_efficiency. Run it again instead of "
      "editing.\n";
  text += fmt::format("gpu: {}\n{}", d.subject.preset, reference_text(d.subject));
  return text + sustained_text(d) + gemm_text(d) + orientation_text(d) + grouped_text(d) + attention_text(d) +
         collectives_text(d);
}

}  // namespace plan::derive
