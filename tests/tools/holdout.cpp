#include "tests/tools/holdout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "formulas/names.hpp"

namespace plan::derive {
namespace {

/// Predictions beside measurements.
struct Pairs {
  std::vector<double> predicted, measured;
  void add(double p, double m) {
    predicted.push_back(p);
    measured.push_back(m);
  }
  FitQuality quality() const { return fit_quality(predicted, measured); }
};

std::vector<double> every_other(const std::vector<double>& values) {
  std::vector<double> kept;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % 2 == 0 || i + 1 == values.size()) kept.push_back(values[i]);
  return kept;
}

bool holds(const std::vector<double>& values, double x) {
  return std::find(values.begin(), values.end(), x) != values.end();
}

Score gemm_score(const std::vector<Row>& all, const Derived& d, DType dtype, const std::string& word) {
  const std::vector<GemmRate> rates = gemm_rates(all, d.subject.csv, word);
  const auto index = static_cast<std::size_t>(dtype);
  const std::vector<double> n = every_other(axis(rates, &GemmRate::n)), k = every_other(axis(rates, &GemmRate::k));
  Gpu gpu = d.gpu;
  gpu.sustained.fill(1);
  gpu.gemm[index][0].grid = grid_of(rates, axis(rates, &GemmRate::m), n, k);
  Pairs pairs;
  for (const GemmRate& r : rates)
    if (!holds(n, r.n) || !holds(k, r.k))
      pairs.add(gemm_time(gpu, {r.m, r.n, r.k}, dtype, Orientation::Forward).value, 2 * r.m * r.n * r.k / r.rate);
  return {"GEMM", d.subject.preset,
          fmt::format("{}, {} of {} shapes", name(dtype), rates.size() - pairs.measured.size(), rates.size()),
          pairs.quality()};
}

/// Every other row of a quantised linear, predicted from the 16-bit products and the law of the others.
Score quantised_score(const std::vector<Row>& all, const Subject& s, const std::string& word) {
  const std::vector<GemmRate> narrow = gemm_rates(all, s.csv, word);
  const std::vector<GemmRate> wide = at_shapes_of(narrow, gemm_rates(all, s.csv, "bfloat16"));
  std::vector<GemmRate> given;
  for (std::size_t i = 0; i < narrow.size(); i += 2) given.push_back(narrow[i]);
  const QuantisedLinear law = quantised_linear(wide, given);
  Pairs pairs;
  for (std::size_t i = 1; i < narrow.size(); i += 2)
    pairs.add(law.seconds(wide[i]), 2 * narrow[i].m * narrow[i].n * narrow[i].k / narrow[i].rate);
  return {"Linear that quantises its input", s.preset,
          fmt::format("{}, {:.2f} of bf16's time and {:.1f} bytes of memory traffic an input", word, law.share,
                      law.per_element * s.memory),
          pairs.quality()};
}

/// The curve without its measured sizes but those at `kept`.
CollectiveFit curve_from(Collective op, int ranks, const std::vector<CollectiveSample>& curve,
                         const std::set<std::size_t>& kept, bool table) {
  std::vector<CollectiveSample> given;
  for (const std::size_t i : kept) given.push_back(curve[i]);
  CollectiveFit fit = fit_collective(op, ranks, given);
  const CollectiveFit law = fit;
  for (const CollectiveSample& s : given) {
    if (!table) break;
    fit.log_bytes.push_back(static_cast<float>(std::log(s.bytes)));
    fit.log_ratio.push_back(static_cast<float>(std::log(s.seconds / curve_time(law, RealBytes(s.bytes), ranks).value)));
  }
  return fit;
}

}  // namespace

std::vector<Score> gemm_scores(const std::vector<Row>& all) {
  std::vector<Score> scores;
  for (const Subject& s : subjects()) {
    const Derived d = derive_gpu(all, s);
    if (!gemm_rates(all, s.csv, "bfloat16").empty()) scores.push_back(gemm_score(all, d, DType::Bf16, "bfloat16"));
  }
  return scores;
}

std::vector<Score> quantised_scores(const std::vector<Row>& all) {
  std::vector<Score> scores;
  for (const Subject& s : subjects())
    for (const char* word : {"fp8", "nvfp4"})
      if (!gemm_rates(all, s.csv, word).empty()) scores.push_back(quantised_score(all, s, word));
  return scores;
}

std::vector<Score> training_gemm_scores(const std::vector<Row>& all) {
  std::vector<Score> scores;
  const std::pair<const char*, const char*> pairs_of[] = {{"A100-SXM", "A100-PCIE"}, {"B200-SXM", "B200-SXM"}};
  for (const auto& [table, measured] : pairs_of) {
    Derived d = derive_gpu(all, subject_of(table));
    if (d.subject.preset.starts_with("a100")) d.gpu.sustained.fill(0.86);  // as inherited.yaml has for A100 PCIe
    for (int o = 0; o < kOrientations; ++o)
      for (const bool inside : {true, false}) {
        Pairs pairs;
        for (const Linear& l : linears(all, measured)) {
          if (l.rate[o] <= 0 || (std::min(l.in, l.out) >= 1024) != inside) continue;
          const double seconds = gemm_time(d.gpu, shape_of(l, o), DType::Bf16, static_cast<Orientation>(o)).value;
          pairs.add(seconds, 2 * l.tokens * l.in * l.out / l.rate[o]);
        }
        constexpr const char* kWords[] = {"forward", "data gradient", "weight gradient"};
        scores.push_back({"GEMM in training", fmt::format("{} (SimuMax)", measured),
                          fmt::format("{}, {}", kWords[o], inside ? "on the grid" : "thinner than the grid"),
                          pairs.quality()});
      }
  }
  return scores;
}

std::vector<Score> grouped_scores(const std::vector<Row>& all) {
  std::vector<Score> scores;
  const Derived d = derive_gpu(all, subject_of("B200-SXM"));
  Derived a100 = derive_gpu(all, subject_of("A100-SXM"));
  a100.gpu.sustained.fill(0.86);
  a100.gpu.memory_bandwidth = BytesPerSecond(1935e9);
  const std::pair<const char*, const Gpu*> gpus[] = {{"B200-SXM", &d.gpu}, {"A100-PCIE", &a100.gpu}};
  for (const auto& [csv, gpu] : gpus)
    for (int o = 0; o < kOrientations; ++o) {
      Pairs pairs;
      for (const GroupedSample& s : grouped(all, csv)) {
        if (static_cast<int>(s.orientation) != o) continue;
        const double seconds = grouped_gemm_time(*gpu, s.experts, s.rows, s.n, s.k, DType::Bf16, s.orientation).value;
        pairs.add(seconds, 2 * s.experts * s.rows * s.n * s.k / s.rate);
      }
      constexpr const char* kWords[] = {"forward", "data gradient", "weight gradient"};
      const bool own = csv == std::string("B200-SXM");
      scores.push_back({"Grouped GEMM", csv, fmt::format("{}, {}", kWords[o], own ? "its own fit" : "the default rule"),
                        pairs.quality()});
    }
  return scores;
}

std::vector<Score> attention_scores(const std::vector<Row>& all) {
  std::vector<Score> scores;
  for (const Subject& s : subjects()) {
    const std::vector<AttentionSample> samples = attention_forward(all, s.csv, s.memory);
    if (samples.empty()) continue;
    std::vector<AttentionSample> given;
    for (std::size_t i = 0; i < samples.size(); i += 2) given.push_back(samples[i]);
    const AttentionFit start{.t0 = Seconds(5e-6), .rate = FlopsPerSecond(0.5 * s.bf16), .s0 = 1000, .b0 = 16};
    const AttentionFit fit = fit_attention(given, start, false);
    Pairs pairs;
    for (std::size_t i = 1; i < samples.size(); i += 2)
      pairs.add(attention_time(fit, samples[i].work, false).value, samples[i].seconds);
    scores.push_back({"Attention", s.preset, "forward, half of NVIDIA's kernels", pairs.quality()});
  }
  const std::pair<const char*, const char*> trained[] = {{"A100-SXM", "A100-PCIE"}, {"B200-SXM", "B200-SXM"}};
  for (const auto& [table, measured] : trained)
    for (const bool backward : {false, true}) {
      const Derived d = derive_gpu(all, subject_of(table));
      Pairs pairs;
      for (const AttentionSample& s : attention_simumax(all, measured, backward))
        pairs.add(attention_time(d.gpu.attention[backward ? 1 : 0], s.work, backward).value, s.seconds);
      scores.push_back(
          {"Attention", fmt::format("{} (SimuMax)", measured), backward ? "backward" : "forward", pairs.quality()});
    }
  return scores;
}

std::vector<Score> collective_scores(const std::vector<Row>& all) {
  std::vector<Score> scores;
  Pairs five_all, half_all;
  for (const Subject& s : subjects()) {
    const Derived d = derive_gpu(all, s);
    Pairs five, half;
    for (const CollectiveFit& f : d.gpu.collectives) {
      const auto& curve = d.curves.at(fmt::format("{} {}", csv_name(f.op), f.ranks));
      const std::size_t n = curve.size();
      const std::set<std::size_t> ends{0, n / 4, n / 2, 3 * n / 4, n - 1};
      std::set<std::size_t> other{n - 1};
      for (std::size_t i = 0; i < n; i += 2) other.insert(i);
      const CollectiveFit law = curve_from(f.op, f.ranks, curve, ends, false);
      const CollectiveFit table = curve_from(f.op, f.ranks, curve, other, true);
      for (std::size_t i = 0; i < n; ++i) {
        if (ends.count(i) == 0) five.add(curve_time(law, RealBytes(curve[i].bytes), f.ranks).value, curve[i].seconds);
        if (other.count(i) == 0)
          half.add(curve_time(table, RealBytes(curve[i].bytes), f.ranks).value, curve[i].seconds);
      }
    }
    if (five.measured.empty()) continue;
    scores.push_back({"Collectives", s.preset, "five sizes of each curve", five.quality()});
    scores.push_back({"Collectives", s.preset, "every other size", half.quality()});
    for (std::size_t i = 0; i < five.measured.size(); ++i) five_all.add(five.predicted[i], five.measured[i]);
    for (std::size_t i = 0; i < half.measured.size(); ++i) half_all.add(half.predicted[i], half.measured[i]);
  }
  scores.push_back({"Collectives", "all", "five sizes of each curve", five_all.quality()});
  scores.push_back({"Collectives", "all", "every other size", half_all.quality()});
  return scores;
}

std::vector<Score> network_scores(const std::vector<Row>& all) {
  std::vector<Score> scores;
  struct Case {
    const char *csv, *words;
    double scale_up, nic;
  };
  const Case cases[] = {{"B200-SXM", "4 nodes of 8 B200, EFA at 50 GB/s per GPU", 900e9, 50e9},
                        {"not stated", "4 nodes of 8, read as A100 at 12.5 GB/s per GPU", 300e9, 12.5e9}};
  for (const Case& c : cases)
    for (const bool large : {true, false}) {
      Cluster cluster;
      cluster.gpu.scale_up = BytesPerSecond(c.scale_up);
      cluster.tiers = {{.name = "nvlink", .size = 8, .bandwidth = BytesPerSecond(c.scale_up)},
                       {.name = "rail", .size = 4096, .bandwidth = BytesPerSecond(c.nic)}};
      Pairs pairs;
      for (const CollectiveSample& s : collective_curve(all, c.csv, "allreduce", "fp32", 32, "4"))
        if ((s.bytes >= 64e6) == large)
          pairs.add(collective_time(cluster, Collective::AllReduce, RealBytes(s.bytes), {32, 1}).value, s.seconds);
      scores.push_back(
          {"All-reduce over the network", c.words, large ? "64 MB and more" : "below 64 MB", pairs.quality()});
    }
  return scores;
}

std::string report(const std::vector<Row>& all) {
  std::string text =
      "# Efficiency tables\n\n"
      "What each GPU reaches on GEMMs, attention and collectives, derived from the published measurements in\n"
      "`tests/published/hardware.csv` by `tests/tools/derive_efficiency`, which also writes this page. Each file names "
      "the\n"
      "source of each table; `inherited.yaml` says whose tables stand in for GPUs that nobody published.\n\n"
      "Errors of predictions on measurements that were held out (|predicted / measured - 1|; bias is the median of\n"
      "predicted / measured - 1). GEMM grids are scored before the sustained share, which the rows under \"GEMM in\n"
      "training\" include; \"thinner than the grid\" is extrapolation below n or k = 1024 by the roofline.\n\n"
      "| what | GPU | predicted from | count | median | p90 | bias |\n|---|---|---|---:|---:|---:|---:|\n";
  for (const auto& scores : {gemm_scores(all), quantised_scores(all), training_gemm_scores(all), grouped_scores(all),
                             attention_scores(all), collective_scores(all), network_scores(all)})
    for (const Score& s : scores)
      text += fmt::format("| {} | {} | {} | {} | {:.1f} % | {:.1f} % | {:+.1f} % |\n", s.section, s.subject, s.from,
                          s.quality.count, 100 * s.quality.median, 100 * s.quality.p90, 100 * s.quality.bias);
  return text;
}

}  // namespace plan::derive
