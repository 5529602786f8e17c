// Writes the measured part of a GPU as efficiency_reader.cpp reads it. Tested by tests/presets/profile_test.cpp.
#include <algorithm>
#include <cmath>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "presets/efficiency_reader.hpp"

namespace plan {
namespace {

constexpr std::string_view kOrientationWords[] = {"forward", "data_grad", "weight_grad"};

std::string quantity(double value, Dimension dimension) { return format_quantity(std::max(value, 1e-12), dimension); }
std::string time_of(Seconds t) { return quantity(t.value, Dimension::Time); }
std::string rate_of(FlopsPerSecond r) { return quantity(r.value, Dimension::FlopRate); }
std::string bandwidth_of(BytesPerSecond b) { return quantity(std::max(b.value, 1.0), Dimension::ByteRate); }

/// Five digits, which logarithms in single precision carry, without an exponent.
std::string digits(double value) {
  const std::string text = fmt::format("{:.5g}", value);
  return text.find('e') == std::string::npos ? text : fmt::format("{:.0f}", value);
}

/// exp of logarithms.
std::string numbers(const float* logs, std::size_t count, double unit = 1) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i)
    out.append(i == 0 ? "" : " ").append(digits(std::exp(static_cast<double>(logs[i])) / unit));
  return out;
}
std::string numbers(const std::vector<float>& logs) { return numbers(logs.data(), logs.size()); }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text.empty() ? std::string("not stated") : text)
    out += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20 ? '\'' : c;
  return out + "\"";
}

void line(Lines& out, int indent, const std::string& text) { out.plain(fmt::format("{:{}}{}", "", indent, text)); }

void write_reference(Lines& out, int in, const Gpu& gpu) {
  std::string peaks;
  for (const Named<DType>& row : kDTypeNames)
    if (const FlopsPerSecond peak = gpu.peak[static_cast<std::size_t>(row.value)]; peak.value > 0)
      peaks += fmt::format("{}: {}, ", row.name, rate_of(peak));
  line(out, in, fmt::format("gpu: {}", gpu.name));
  line(out, in,
       fmt::format("reference: {{{}memory_bandwidth: {}, scale_up: {}}}", peaks, bandwidth_of(gpu.memory_bandwidth),
                   bandwidth_of(gpu.scale_up)));
}

void write_gemm(Lines& out, int in, const Gpu& gpu, const std::string& source) {
  bool any = false;
  for (const Named<DType>& dtype : kDTypeNames)
    for (std::size_t o = 0; o < kOrientations; ++o) {
      const GemmTable& table = gpu.gemm[static_cast<std::size_t>(dtype.value)][o];
      if (table.fit.rate.value <= 0) continue;
      if (!any) line(out, in, "gemm:");
      any = true;
      line(out, in + 2, fmt::format("- dtype: {}", dtype.name));
      line(out, in + 4, fmt::format("orientation: {}", kOrientationWords[o]));
      line(out, in + 4, fmt::format("source: {}", quoted(source)));
      line(out, in + 4,
           fmt::format("fit: {{floor: {}, rate: {}, bandwidth: {}}}", time_of(table.fit.t0), rate_of(table.fit.rate),
                       bandwidth_of(table.fit.bandwidth)));
      const GemmGrid& grid = table.grid;
      if (grid.empty()) continue;
      line(out, in + 4, fmt::format("m: {}", numbers(grid.log_m)));
      line(out, in + 4, fmt::format("n: {}", numbers(grid.log_n)));
      line(out, in + 4, fmt::format("k: {}", numbers(grid.log_k)));
      line(out, in + 4, "tflops: |");
      for (std::size_t i = 0; i + grid.log_k.size() <= grid.log_rate.size(); i += grid.log_k.size())
        line(out, in + 6, numbers(grid.log_rate.data() + i, grid.log_k.size(), 1e12));
    }
}

void write_shares(Lines& out, int in, const Gpu& gpu, const std::string& source) {
  const Gpu assumed;
  if (gpu.sustained != assumed.sustained) {
    line(out, in, "sustained:");
    line(out, in + 2, fmt::format("source: {}", quoted(source)));
    for (const Named<DType>& row : kDTypeNames)
      line(out, in + 2, fmt::format("{}: {}", row.name, gpu.sustained[static_cast<std::size_t>(row.value)]));
  }
  if (gpu.orientation_ratio == assumed.orientation_ratio) return;
  line(out, in, "orientation_ratio:");
  line(out, in + 2, fmt::format("source: {}", quoted(source)));
  for (const Named<DType>& row : kDTypeNames) {
    const auto& ratio = gpu.orientation_ratio[static_cast<std::size_t>(row.value)];
    line(out, in + 2, fmt::format("{}: {{data_grad: {}, weight_grad: {}}}", row.name, ratio[1], ratio[2]));
  }
}

void write_grouped(Lines& out, int in, const Gpu& gpu, const std::string& source) {
  for (const GroupedGemmFit& fit : gpu.grouped_gemm)
    if (fit.rate.value <= 0) return;
  line(out, in, "grouped_gemm:");
  line(out, in + 2, fmt::format("source: {}", quoted(source)));
  for (std::size_t o = 0; o < kOrientations; ++o) {
    const GroupedGemmFit& fit = gpu.grouped_gemm[o];
    line(out, in + 2,
         fmt::format("{}: {{per_expert: {}, rate: {}, bandwidth: {}}}", kOrientationWords[o],
                     format_quantity(fit.per_expert.value, Dimension::Time), rate_of(fit.rate),
                     bandwidth_of(fit.bandwidth)));
  }
}

void write_attention(Lines& out, int in, const Gpu& gpu, const std::string& source) {
  for (const AttentionFit& fit : gpu.attention)
    if (fit.rate.value <= 0) return;
  line(out, in, "attention:");
  line(out, in + 2, fmt::format("source: {}", quoted(source)));
  for (std::size_t pass = 0; pass < 2; ++pass) {
    const AttentionFit& fit = gpu.attention[pass];
    line(out, in + 2,
         fmt::format("{}: {{floor: {}, rate: {}, s0: {}, b0: {}, d0: {}}}", pass == 0 ? "forward" : "backward",
                     time_of(fit.t0), rate_of(fit.rate), fit.s0, fit.b0, fit.d0));
  }
}

/// Times of the measured points, which the fit holds as ratios to its law.
std::string curve_times(const CollectiveFit& fit) {
  CollectiveFit law = fit;
  law.log_bytes.clear();
  law.log_ratio.clear();
  std::string out;
  for (std::size_t i = 0; i < fit.log_bytes.size(); ++i) {
    const double bytes = std::exp(static_cast<double>(fit.log_bytes[i]));
    const double seconds =
        curve_time(law, RealBytes(bytes), fit.ranks).value * std::exp(static_cast<double>(fit.log_ratio[i]));
    out.append(i == 0 ? "" : " ").append(digits(seconds * 1e6));
  }
  return out;
}

void write_collectives(Lines& out, int in, const Gpu& gpu, const std::string& source) {
  if (gpu.collectives.empty()) return;
  std::vector<float> sizes;  // those of the longest curve; a curve of other sizes keeps its fit alone
  for (const CollectiveFit& fit : gpu.collectives)
    if (fit.log_bytes.size() > sizes.size()) sizes = fit.log_bytes;
  line(out, in, "collectives:");
  line(out, in + 2, fmt::format("source: {}", quoted(source)));
  line(out, in + 2, fmt::format("bytes: {}", sizes.empty() ? "1" : numbers(sizes)));
  line(out, in + 2, "curves:");
  for (const CollectiveFit& fit : gpu.collectives) {
    std::string text = fmt::format("- {{op: {}, ranks: {}, alpha: {}, busbw: {}, p: {}", name(fit.op), fit.ranks,
                                   time_of(fit.alpha), bandwidth_of(fit.busbw), fit.p);
    if (!fit.log_bytes.empty() && fit.log_bytes == sizes) text += fmt::format(", us: {}", curve_times(fit));
    line(out, in + 4, text + "}");
  }
}

}  // namespace

void write_efficiency_fields(Lines& out, int indent, const Gpu& gpu, const std::string& source) {
  write_reference(out, indent, gpu);
  write_shares(out, indent, gpu, source);
  write_gemm(out, indent, gpu, source);
  write_grouped(out, indent, gpu, source);
  write_attention(out, indent, gpu, source);
  write_collectives(out, indent, gpu, source);
}

bool has_efficiency(const Gpu& gpu) {
  for (const auto& tables : gpu.gemm)
    for (const GemmTable& table : tables)
      if (table.fit.rate.value > 0) return true;
  return gpu.attention[0].rate.value > 0 || !gpu.collectives.empty();
}

void fill_efficiency(Gpu& gpu, const Gpu& other) {
  bool own_gemm = false;
  for (std::size_t d = 0; d < kDTypes; ++d)
    for (std::size_t o = 0; o < kOrientations; ++o) own_gemm = own_gemm || gpu.gemm[d][o].fit.rate.value > 0;
  if (!own_gemm) {
    gpu.gemm = other.gemm;
    gpu.sustained = other.sustained;
    gpu.orientation_ratio = other.orientation_ratio;
  }
  for (std::size_t o = 0; o < kOrientations; ++o)
    if (gpu.grouped_gemm[o].rate.value <= 0) gpu.grouped_gemm[o] = other.grouped_gemm[o];
  for (std::size_t pass = 0; pass < 2; ++pass)
    if (gpu.attention[pass].rate.value <= 0) gpu.attention[pass] = other.attention[pass];
  if (gpu.collectives.empty()) gpu.collectives = other.collectives;
}

}  // namespace plan
