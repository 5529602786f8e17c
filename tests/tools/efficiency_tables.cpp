#include "tests/tools/efficiency_tables.hpp"

#include <algorithm>
#include <cmath>

#include "formulas/kernel_laws.hpp"

namespace plan::derive {
namespace {

constexpr auto kBf16 = static_cast<std::size_t>(DType::Bf16), kFp8 = static_cast<std::size_t>(DType::Fp8),
               kFp4 = static_cast<std::size_t>(DType::Fp4), kFp16 = static_cast<std::size_t>(DType::Fp16);

const char* const kBestShape = "gemm MAMF (best shape of a search)";

bool ampere(const Subject& s) { return s.preset.starts_with("a100"); }
bool hopper(const Subject& s) { return s.preset.starts_with("h"); }

double best_rate(const std::vector<GemmRate>& rates) {
  double best = 0;
  for (const GemmRate& r : rates) best = std::max(best, r.rate);
  return best;
}

double published(const std::vector<Row>& all, const std::string& gpu, const std::string& what,
                 const std::string& dtype) {
  const Rows rows = select(all, gpu, what, dtype);
  return rows.empty() ? 0 : rows.front()->value * 1e12;
}

/// "repository@commit:path" of the first row.
std::string source_of(const Rows& rows) { return rows.empty() ? "" : rows.front()->source; }

/// Rate of the four GEMMs of TransformerEngine's published layer on a table: M 15872, h 4096, ffn 16384.
double layer_rate(const Gpu& gpu, DType dtype) {
  const double shapes[4][2] = {{12288, 4096}, {4096, 4096}, {16384, 4096}, {4096, 16384}};
  double flops = 0, seconds = 0;
  for (const auto& [n, k] : shapes) {
    flops += 2 * 15872 * n * k;
    seconds += gemm_time(gpu, {15872, n, k}, dtype, Orientation::Forward).value;
  }
  return flops / seconds;
}

/// A GPU of which only the published bf16 grid is known.
Gpu forward_only(const std::vector<Row>& all, const std::string& table) {
  Gpu gpu;
  const std::vector<GemmRate> rates = gemm_rates(all, table, "bfloat16");
  gpu.gemm[kBf16][0] = {
      grid_fit(rates, DType::Bf16, 2.8e-6, 2e12),
      grid_of(rates, axis(rates, &GemmRate::m), axis(rates, &GemmRate::n), axis(rates, &GemmRate::k))};
  return gpu;
}

double share_of_layer(const std::vector<Row>& all, const std::string& table, const std::string& measured) {
  return published(all, measured, "gemm sum of 4 layer GEMMs, fprop (pre-quantised)", "bf16") /
         layer_rate(forward_only(all, table), DType::Bf16);
}

double share_of_linears(const std::vector<Row>& all, const Gpu& gpu, const std::string& measured) {
  std::vector<double> ratios;
  for (const Linear& l : linears(all, measured)) {
    const double flops = 2 * l.tokens * l.in * l.out;
    if (l.rate[0] <= 0 || std::min(l.in, l.out) < 1024) continue;
    ratios.push_back(l.rate[0] /
                     (flops / gemm_time(gpu, {l.tokens, l.out, l.in}, DType::Bf16, Orientation::Forward).value));
  }
  return median(ratios);
}

/// The product of a type: as published in 16 bits, without the quantisation of its input in fp8 and fp4.
std::vector<GemmRate> product_rates(const std::vector<Row>& all, const std::string& csv, const std::string& word) {
  std::vector<GemmRate> published = gemm_rates(all, csv, word);
  if (published.empty() || word == "bfloat16") return published;
  const std::vector<GemmRate> wide = gemm_rates(all, csv, "bfloat16");
  return product_alone(wide, quantised_linear(wide, published));
}

void derive_gemm(const std::vector<Row>& all, Derived& d, DType dtype, const std::string& word) {
  const std::vector<GemmRate> rates = product_rates(all, d.subject.csv, word);
  if (rates.empty()) return;
  GemmTable& table = d.gpu.gemm[static_cast<std::size_t>(dtype)][0];
  table.fit = grid_fit(rates, dtype, d.subject.floor, d.subject.bandwidth_share * d.subject.memory);
  table.grid = grid_of(rates, axis(rates, &GemmRate::m), axis(rates, &GemmRate::n), axis(rates, &GemmRate::k));
  d.sources["gemm." + word] = source_of(select(all, d.subject.csv, "gemm", word));
  if (dtype != DType::Bf16)
    d.sources["gemm." + word] += " (a linear that quantises its input: the share of the bf16 product's time besides)";
}

/// TransformerEngine's published layer rate of one pass, without quantisation.
double layer_published(const std::vector<Row>& all, const std::string& gpu, const std::string& pass,
                       const std::string& recipe) {
  return published(all, gpu, "gemm sum of 4 layer GEMMs, " + pass + " (pre-quantised)", recipe);
}

/// Ratio of a gradient's pass to the forward one.
double layer_ratio(const std::vector<Row>& all, const std::string& gpu, const std::string& pass,
                   const std::string& recipe) {
  const double forward = layer_published(all, gpu, "fprop", recipe);
  return forward > 0 ? layer_published(all, gpu, pass, recipe) / forward : 1;
}

/// fp8 and fp4 keep other shares of their tables than bf16: those of the published layer, geometric mean over the
/// scaling recipes, relative to bf16's. Delayed scaling is not among them: what is printed of its products without
/// quantisation has it (benchmarks/gemm/benchmark_gemm.py: no variant of its own). A share may exceed 1: products of
/// cuBLAS, which the layer calls, are 6 % faster in NVFP4 on GB200 than those of TensorRT-LLM in the table.
void derive_quantised_sustained(const std::vector<Row>& all, Derived& d) {
  const bool blackwell = d.subject.fp4 > 0;
  const std::string table = blackwell ? "B300-SXM" : "H200-SXM", layer = blackwell ? "B300-SXM" : "H200-NVL";
  const auto share = [&](DType dtype, const std::string& word, const std::vector<std::string>& recipes) {
    Gpu gpu = forward_only(all, table);
    const std::vector<GemmRate> rates = product_rates(all, table, word);
    gpu.gemm[static_cast<std::size_t>(dtype)][0] = {
        grid_fit(rates, dtype, 2.8e-6, 2e12),
        grid_of(rates, axis(rates, &GemmRate::m), axis(rates, &GemmRate::n), axis(rates, &GemmRate::k))};
    double log_sum = 0;
    for (const std::string& recipe : recipes)
      log_sum += std::log(layer_published(all, layer, "fprop", recipe) / layer_rate(gpu, dtype));
    const double bf16 = layer_published(all, layer, "fprop", "bf16") / layer_rate(gpu, DType::Bf16);
    const double relative = std::exp(log_sum / static_cast<double>(recipes.size())) / bf16;
    return d.gpu.sustained[kBf16] * relative;
  };
  if (d.subject.fp8 > 0)
    d.gpu.sustained[kFp8] =
        blackwell ? share(DType::Fp8, "fp8", {"fp8-current", "mxfp8"}) : share(DType::Fp8, "fp8", {"fp8-current"});
  if (blackwell) d.gpu.sustained[kFp4] = share(DType::Fp4, "nvfp4", {"nvfp4"});
  if (d.subject.fp8 > 0) d.sources["sustained"] += "; fp8 and fp4 relative to bf16 by the same layer on " + layer;
}

void derive_orientations(const std::vector<Row>& all, Derived& d) {
  auto& ratio = d.gpu.orientation_ratio;
  const auto a100 = orientation_ratio(all, "A100-PCIE", "A100-SXM"),
             b200 = orientation_ratio(all, "B200-SXM", "B200-SXM");
  ratio[kBf16] = ampere(d.subject) ? a100 : b200;
  if (hopper(d.subject) || d.subject.preset == "l40s")
    for (int o = 1; o < kOrientations; ++o) ratio[kBf16][o] = 0.5 * (a100[o] + b200[o]);
  ratio[kFp16] = ratio[kBf16];
  const bool blackwell = d.subject.fp4 > 0;
  const std::string layer = blackwell ? "B300-SXM" : "H200-NVL";
  if (d.subject.fp8 > 0)
    ratio[kFp8] = {1, layer_ratio(all, layer, "dgrad", "fp8-current"), layer_ratio(all, layer, "wgrad", "fp8-current")};
  if (blackwell)
    ratio[kFp4] = {1, layer_ratio(all, layer, "dgrad", "nvfp4"), layer_ratio(all, layer, "wgrad", "nvfp4")};
  d.sources["orientation"] =
      "bf16: paired linears of SimuMax's A100-PCIE and B200 tables (wgrad accumulates in fp32); fp8 and fp4: "
      "TransformerEngine's published layer on " +
      layer;
}

void derive_grouped(const std::vector<Row>& all, Derived& d, const std::string& csv) {
  const std::vector<GroupedSample> samples = grouped(all, csv);
  const double bandwidth = 0.8 * d.subject.memory;
  for (int o = 0; o < kOrientations; ++o) {
    std::vector<GroupedSample> chosen;
    std::vector<double> seconds;
    for (const GroupedSample& s : samples) {
      if (static_cast<int>(s.orientation) != o) continue;
      chosen.push_back(s);
      seconds.push_back(2 * s.experts * s.rows * s.n * s.k / s.rate);
    }
    if (chosen.empty()) return;
    const auto model = [&](std::span<const double> x, std::size_t i) {
      const GroupedSample& s = chosen[i];
      const GroupedGemmFit fit{Seconds(x[0]), FlopsPerSecond(x[1]), BytesPerSecond(bandwidth)};
      return grouped_law<double>(fit, {s.rows, s.n, s.k, s.experts},
                                 grouped_gemm_bytes(s.experts, s.rows, s.n, s.k, DType::Bf16, s.orientation))
          .value;
    };
    const std::vector<double> found = fit_log(model, seconds, {1e-6, d.gpu.gemm[kBf16][0].fit.rate.value});
    d.gpu.grouped_gemm[static_cast<std::size_t>(o)] = {Seconds(std::max(found[0], 1e-9)), FlopsPerSecond(found[1]),
                                                       BytesPerSecond(bandwidth), Provenance::Fitted};
  }
  d.sources["grouped_gemm"] = source_of(select(all, csv, "grouped-gemm", "bf16"));
}

/// GPUs of which only the best shape of a search was published: a large shape reaches the median share of the best.
void derive_best_shape(const std::vector<Row>& all, Derived& d, DType dtype, const std::string& word) {
  GemmTable& table = d.gpu.gemm[static_cast<std::size_t>(dtype)][0];
  const double best = published(all, d.subject.csv, kBestShape, word);
  if (table.fit.rate.value > 0 || best <= 0) return;
  std::vector<double> shares;
  for (const Subject& s : subjects()) {
    const std::vector<GemmRate> rates = gemm_rates(all, s.csv, "bfloat16");
    std::vector<double> large;
    for (const GemmRate& r : rates)
      if (std::min({r.m, r.n, r.k}) >= 4096) large.push_back(r.rate);
    if (!large.empty()) shares.push_back(median(large) / best_rate(rates));
  }
  table.fit = {.t0 = Seconds(d.subject.floor),
               .rate = FlopsPerSecond(best * median(shares)),
               .bandwidth = BytesPerSecond(d.subject.bandwidth_share * d.subject.memory),
               .provenance = Provenance::Fitted};
  d.sources[dtype == DType::Bf16 ? "gemm.bfloat16" : "gemm.fp8"] =
      source_of(select(all, d.subject.csv, kBestShape, word)) + " (best shape of a search, times the median share)";
}

constexpr double kBackwardShare = 0.85;  // of the forward rate: SimuMax's A100-PCIE and B200 rows at 64 heads

void derive_attention(const std::vector<Row>& all, Derived& d) {
  const std::vector<AttentionSample> samples = attention_forward(all, d.subject.csv, d.subject.memory);
  if (samples.empty()) return;
  const AttentionFit start{.t0 = Seconds(5e-6),
                           .rate = FlopsPerSecond(0.5 * d.subject.bf16),
                           .s0 = 1000,
                           .b0 = 16,
                           .d0 = d.subject.softmax_dim};
  AttentionFit forward = fit_attention(samples, start, false);
  forward.t0 = Seconds(std::max(forward.t0.value, 1e-6));
  forward.rate = forward.rate * d.subject.attention_factor;
  d.gpu.attention[0] = forward;
  AttentionFit backward = forward;
  backward.rate = forward.rate * kBackwardShare;
  if (d.subject.fp4 > 0) {  // Blackwell: B200's own backward, scaled by the forward rates
    const std::vector<AttentionSample> b200 = attention_simumax(all, "B200-SXM", true);
    backward = fit_attention(b200, start, true);
    const AttentionFit b200_forward =
        fit_attention(attention_forward(all, "B200-SXM", subject_of("B200-SXM").memory), start, false);
    backward.rate = backward.rate * (fit_attention(samples, start, false).rate / b200_forward.rate);
  }
  d.gpu.attention[1] = backward;
  d.sources["attention"] = source_of(select(all, d.subject.csv, "attention-fwd (causal)", "bf16"));
}

void derive_collectives(const std::vector<Row>& all, Derived& d) {
  const std::string dtype = d.subject.preset.starts_with("v100") ? "fp32" : "fp16";
  for (const Collective op :
       {Collective::AllReduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllToAll})
    for (int ranks = 2; ranks <= 8; ++ranks) {
      const std::vector<CollectiveSample> curve = collective_curve(all, d.subject.csv, csv_name(op), dtype, ranks);
      if (curve.size() < 5) continue;
      d.gpu.collectives.push_back(fit_collective(op, ranks, curve));
      d.curves[std::string(csv_name(op)) + " " + std::to_string(ranks)] = curve;
    }
  if (!d.gpu.collectives.empty()) d.sources["collectives"] = source_of(select(all, d.subject.csv, "allreduce", dtype));
}

}  // namespace

const std::vector<Subject>& subjects() {
  // Roofline floors and bandwidths of H100, H200 and B200: fits of NVIDIA's full tables (11,271 shapes,
  // plan-measuring(7) 1.3), of which the file here has the large ones; the others take the middle share.
  // attention_factor: SimuMax's training kernels over NVIDIA's inference kernels, at 16 heads and more.
  // softmax_dim: exponentials (16 a clock and SM, 32 on B300) against the tensor peak at head size 128, half hidden.
  static const std::vector<Subject> list = {
      {"A100-SXM", "a100-sxm-80gb", 312e12, 0, 0, 2039e9, 300e9, 400, 0.58, 2.8e-6, 1.35, 16},
      {"H100-SXM", "h100-sxm", 989.4e12, 1978.9e12, 0, 3350e9, 450e9, 700, 2200. / 3350, 2.8e-6, 1, 33},
      {"H200-SXM", "h200-sxm", 989.4e12, 1978.9e12, 0, 4800e9, 450e9, 700, 2460. / 4800, 2.8e-6, 1, 33},
      {"B200-SXM", "b200-sxm", 2250e12, 4500e12, 9000e12, 8000e9, 900e9, 1000, 4580. / 8000, 2.6e-6, 1.08, 64},
      {"B300-SXM", "b300-sxm", 2250e12, 4500e12, 14000e12, 8000e9, 900e9, 1100, 0.58, 2.6e-6, 1.08, 32},
      {"GB200", "gb200", 2500e12, 5000e12, 10000e12, 8000e9, 900e9, 1200, 0.58, 2.6e-6, 1.08, 64},
      {"GB300", "gb300", 2500e12, 5000e12, 15000e12, 8000e9, 900e9, 1400, 0.58, 2.6e-6, 1.08, 32},
      {"L40S", "l40s", 362e12, 733e12, 0, 864e9, 31.5e9, 350, 0.58, 2.8e-6, 1, 16},
      {"RTX PRO 6000 Server", "rtx-pro-6000", 468e12, 936e12, 0, 1597e9, 63e9, 600, 0.58, 2.8e-6, 1, 32},
      {"MI300X", "mi300x", 1307.4e12, 2614.9e12, 0, 5300e9, 448e9, 750},
      {"MI325X", "mi325x", 1307.4e12, 2614.9e12, 0, 6000e9, 448e9, 1000},
      {"MI355X", "mi355x", 2500e12, 5000e12, 10100e12, 8000e9, 537.6e9, 1400},
      {"Gaudi2", "gaudi2", 432e12, 865e12, 0, 2460e9, 262.5e9, 600},
      {"Gaudi3", "gaudi3", 1677e12, 1677e12, 0, 3700e9, 525e9, 900},
      {"V100-SXM2", "v100-sxm2-32gb", 0, 0, 0, 900e9, 150e9, 300, 0.58, 2.8e-6, 1, 16},
  };
  return list;
}

const Subject& subject_of(const std::string& csv) {
  for (const Subject& s : subjects())
    if (s.csv == csv) return s;
  return subjects().front();
}

GemmShape shape_of(const Linear& l, int orientation) {
  if (orientation == 0) return {l.tokens, l.out, l.in};
  if (orientation == 1) return {l.tokens, l.in, l.out};
  return {l.out, l.in, l.tokens};
}

std::array<double, kOrientations> orientation_ratio(const std::vector<Row>& all, const std::string& measured,
                                                    const std::string& table) {
  const Gpu gpu = forward_only(all, table);
  std::array<std::vector<double>, kOrientations> over_table;
  for (const Linear& l : linears(all, measured))
    for (int o = 0; o < kOrientations; ++o) {
      if (l.rate[o] <= 0 || std::min(l.in, l.out) < 1024) continue;
      const double seconds = gemm_time(gpu, shape_of(l, o), DType::Bf16, Orientation::Forward).value;
      over_table[static_cast<std::size_t>(o)].push_back(l.rate[o] * seconds / (2 * l.tokens * l.in * l.out));
    }
  const double forward = median(over_table[0]);
  return {1, median(over_table[1]) / forward, median(over_table[2]) / forward};
}

/// Rate against power under a power limit. Dynamic power goes with the cube of the frequency where the voltage follows
/// it, and with the frequency alone once the voltage is at its floor: the square is between. Best shapes of a long
/// search on two of a chip (A100 SXM and PCIe, GH200 and H100, GB200 and B200), not all of which draw all power, went
/// with powers of 0.17 to 0.36.
double power_scale(double watts, double measured_watts) { return std::sqrt(watts / measured_watts); }

Sustained sustained(const std::vector<Row>& all, const Subject& s) {
  const double b300 = share_of_layer(all, "B300-SXM", "B300-SXM");
  if (ampere(s)) {
    const double pcie = share_of_linears(all, forward_only(all, s.csv), "A100-PCIE") * power_scale(s.power_w, 300);
    const double search = published(all, s.csv, kBestShape, "bf16") / best_rate(gemm_rates(all, s.csv, "bfloat16"));
    return {
        std::sqrt(std::min(1.0, pcie) * search),
        "geometric mean of SimuMax's A100-PCIE linears over the table, scaled by power^0.5 from 300 to 400 W and at "
        "most 1, and of the best shape of a long search (ml-engineering MAMF) over the best of the table"};
  }
  if (hopper(s))
    return {
        share_of_layer(all, "H200-SXM", "H200-NVL") * power_scale(s.power_w, 600),
        "TransformerEngine's published layer on H200 NVL over the H200 table, scaled by power^0.5 from 600 to 700 W"};
  if (s.preset == "b200-sxm" || s.preset == "b300-sxm") {
    const double b200 = share_of_linears(all, forward_only(all, "B200-SXM"), "B200-SXM");
    return {
        std::sqrt(b200 * power_scale(s.power_w, 1000) * b300 * power_scale(s.power_w, 1100)),
        "geometric mean of SimuMax's B200 linears and of TransformerEngine's published layer on B300, each over the "
        "table of its GPU and scaled by power^0.5 from 1000 or 1100 W"};
  }
  if (s.preset.starts_with("gb"))
    return {published(all, "GB200", kBestShape, "bf16") / best_rate(gemm_rates(all, "GB200", "bfloat16")),
            "best shape of a long search (ml-engineering MAMF) on GB200 over the best of the burst table"};
  return {1, ""};
}

Derived derive_gpu(const std::vector<Row>& all, const Subject& subject) {
  Derived d{.subject = subject, .gpu = {}, .sources = {}, .curves = {}};
  derive_gemm(all, d, DType::Bf16, "bfloat16");
  derive_gemm(all, d, DType::Fp8, "fp8");
  derive_gemm(all, d, DType::Fp4, "nvfp4");
  const bool gemms = !d.gpu.gemm[kBf16][0].grid.empty();
  if (gemms) {
    const Sustained s = sustained(all, subject);
    d.gpu.sustained[kBf16] = d.gpu.sustained[kFp16] = s.share;
    d.sources["sustained"] = s.source;
    derive_quantised_sustained(all, d);
    derive_orientations(all, d);
  } else {
    derive_best_shape(all, d, DType::Bf16, "bf16");
    derive_best_shape(all, d, DType::Fp8, "fp8_e4m3");
  }
  if (subject.preset == "b200-sxm") derive_grouped(all, d, "B200-SXM");
  derive_attention(all, d);
  derive_collectives(all, d);
  return d;
}

}  // namespace plan::derive
