#include "tests/tools/derive.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "formulas/efficiency.hpp"

namespace plan::derive {

Rows select(const std::vector<Row>& all, const std::string& gpu, const std::string& what, const std::string& dtype) {
  Rows rows;
  for (const Row& r : all)
    if (r.gpu == gpu && r.what == what && r.dtype == dtype) rows.push_back(&r);
  return rows;
}

std::vector<GemmRate> gemm_rates(const std::vector<Row>& all, const std::string& gpu, const std::string& dtype) {
  std::vector<GemmRate> rates;
  for (const Row* r : select(all, gpu, "gemm", dtype)) {
    auto at = numbers(r->shape);
    rates.push_back({at["0"], at["1"], at["2"], r->value * 1e12});
  }
  std::sort(rates.begin(), rates.end(),
            [](const GemmRate& a, const GemmRate& b) { return std::tie(a.m, a.n, a.k) < std::tie(b.m, b.n, b.k); });
  return rates;
}

double QuantisedLinear::seconds(const GemmRate& wide) const {
  return share * 2 * wide.m * wide.n * wide.k / wide.rate + per_element * wide.m * wide.k + floor;
}

std::vector<GemmRate> at_shapes_of(const std::vector<GemmRate>& narrow, const std::vector<GemmRate>& wide) {
  std::map<std::tuple<double, double, double>, double> at;
  for (const GemmRate& r : wide) at[{r.m, r.n, r.k}] = r.rate;
  std::vector<GemmRate> rates;
  for (const GemmRate& r : narrow) rates.push_back({r.m, r.n, r.k, at.at({r.m, r.n, r.k})});
  return rates;
}

QuantisedLinear quantised_linear(const std::vector<GemmRate>& wide, const std::vector<GemmRate>& narrow) {
  const std::vector<GemmRate> same = at_shapes_of(narrow, wide);
  std::vector<double> measured;
  for (const GemmRate& r : narrow) measured.push_back(2 * r.m * r.n * r.k / r.rate);
  const auto model = [&](std::span<const double> x, std::size_t i) {
    return QuantisedLinear{x[0], x[1], x[2]}.seconds(same[i]);
  };
  const std::vector<double> found = fit_log(model, measured, {0.5, 1e-12, 1e-5});
  return {found[0], found[1], found[2]};
}

std::vector<GemmRate> product_alone(std::vector<GemmRate> wide, const QuantisedLinear& linear) {
  for (GemmRate& r : wide) r.rate /= linear.share;
  return wide;
}

std::vector<double> axis(const std::vector<GemmRate>& rates, double GemmRate::*coordinate) {
  std::set<double> values;
  for (const GemmRate& r : rates) values.insert(r.*coordinate);
  return {values.begin(), values.end()};
}

GemmGrid grid_of(const std::vector<GemmRate>& rates, const std::vector<double>& m, const std::vector<double>& n,
                 const std::vector<double>& k) {
  std::map<std::tuple<double, double, double>, double> at;
  for (const GemmRate& r : rates) at[{r.m, r.n, r.k}] = r.rate;
  std::vector<double> values;
  for (const double a : m)
    for (const double b : n)
      for (const double c : k) {
        const auto found = at.find({a, b, c});
        if (found == at.end()) return {};
        values.push_back(found->second);
      }
  return make_gemm_grid(m, n, k, values);
}

GemmFit grid_fit(const std::vector<GemmRate>& rates, DType dtype, double t0, double bandwidth) {
  std::vector<double> seconds;
  std::vector<GemmSample> samples;
  for (const GemmRate& r : rates) {
    const double flops = 2 * r.m * r.n * r.k;
    samples.push_back({flops, gemm_bytes({r.m, r.n, r.k}, dtype, Orientation::Forward).value, flops / r.rate});
    seconds.push_back(samples.back().seconds);
  }
  const auto at = [&](double rate) {
    return GemmFit{.t0 = Seconds(t0),
                   .rate = FlopsPerSecond(rate),
                   .bandwidth = BytesPerSecond(bandwidth),
                   .provenance = Provenance::Fitted};
  };
  const auto model = [&](std::span<const double> x, std::size_t i) {
    return roofline_time(at(x[0]), Flops(samples[i].flops), RealBytes(samples[i].bytes)).value;
  };
  return at(fit_log(model, seconds, {rates.front().rate})[0]);
}

Seconds rotated_and_cached(const Gpu& gpu, const PromptShape& shape) {
  constexpr double kBytes = 2;                 // of an element
  constexpr double kQueries = 2;               // read, and written turned
  constexpr double kKeysValues = 2 * (1 + 1);  // both read, and both written: turned into the cache
  const double heads = kQueries * shape.heads + kKeysValues * shape.kv_heads;
  return memory_bound_time(gpu, RealBytes(kBytes * shape.batch * shape.seq * shape.dim * heads), 1);
}

std::vector<AttentionSample> attention_forward(const std::vector<Row>& all, const std::string& gpu, double memory) {
  Gpu chip;
  chip.memory_bandwidth = BytesPerSecond(memory);
  std::vector<AttentionSample> samples;
  for (const Row* r : select(all, gpu, "attention-fwd (causal)", "bf16")) {
    auto at = numbers(r->shape);
    const PromptShape shape{at["B"], at["S"], at["H"], at["KV"], at["D"]};
    samples.push_back({{shape.batch, shape.seq, shape.seq / 2, shape.heads, shape.dim, shape.dim},
                       r->seconds - rotated_and_cached(chip, shape).value});
  }
  return samples;
}

std::vector<AttentionSample> attention_simumax(const std::vector<Row>& all, const std::string& gpu, bool backward) {
  std::vector<AttentionSample> samples;
  for (const Row* r : select(all, gpu, backward ? "attention-bwd" : "attention-fwd", "bf16")) {
    auto at = numbers(r->shape);
    const AttentionWork work{at["batch"],    at["seq_len"],     at["seq_len"] / 2,
                             at["head_num"], at["qk_head_dim"], at["v_head_dim"]};
    // SimuMax divides the FLOPs of full attention by a causal kernel's time (plan-formulas(7) F3).
    const double full = 2 * attention_flops(work).value * (backward ? 2.5 : 1.0);
    samples.push_back({work, full / (r->value * 1e12)});
  }
  return samples;
}

std::vector<CollectiveSample> collective_curve(const std::vector<Row>& all, const std::string& gpu,
                                               const std::string& op, const std::string& dtype, int ranks,
                                               const std::string& nodes) {
  std::map<double, double> curve;
  for (const Row* r : select(all, gpu, op, dtype)) {
    const double bytes = std::strtod(r->shape.c_str(), nullptr);
    if (r->ranks != std::to_string(ranks) || r->nodes != nodes || bytes <= 0) continue;
    double seconds = r->seconds;
    if (seconds <= 0 && r->value > 0.02) {  // busbw printed with two decimals
      const double factor = op == "allreduce" ? 2.0 * (ranks - 1) / ranks : (ranks - 1.0) / ranks;
      seconds = bytes * factor / (r->value * 1e9);
    }
    if (seconds > 0) curve[bytes] = seconds;
  }
  std::vector<CollectiveSample> samples;
  for (const auto& [bytes, seconds] : curve) samples.push_back({bytes, seconds});
  return samples;
}

std::vector<GroupedSample> grouped(const std::vector<Row>& all, const std::string& gpu) {
  std::vector<GroupedSample> samples;
  for (const Row* r : select(all, gpu, "grouped-gemm", "bf16")) {
    auto at = numbers(r->shape);
    const bool act = r->shape.find("stage=bwd_grad_act") != std::string::npos;
    const bool weight = r->shape.find("stage=bwd_grad_w") != std::string::npos;
    samples.push_back({at["ng"], at["M"], at["N"], at["K"], r->value * 1e12,
                       weight ? Orientation::WeightGrad
                       : act  ? Orientation::DataGrad
                              : Orientation::Forward});
  }
  return samples;
}

std::vector<Linear> linears(const std::vector<Row>& all, const std::string& gpu) {
  std::map<std::tuple<double, double, double>, Linear> found;
  for (const Row* r : select(all, gpu, "gemm", "bf16")) {
    auto at = numbers(r->shape);
    const bool fp32 = r->shape.find("out_dtype=fp32") != std::string::npos;
    const double m = at["m"], n = at["n"], k = at["k"];
    Linear row;
    int orientation = 0;
    if (r->shape.find("layout=TN") != std::string::npos) row = {m, k, n};
    if (r->shape.find("layout=NN") != std::string::npos) row = {m, n, k}, orientation = 1;
    if (r->shape.find("layout=NT") != std::string::npos) {
      if (!fp32) continue;
      row = {k, n, m}, orientation = 2;
    }
    Linear& linear = found[{row.tokens, row.in, row.out}];
    linear.tokens = row.tokens, linear.in = row.in, linear.out = row.out;
    linear.rate[orientation] = r->value * 1e12;
  }
  std::vector<Linear> list;
  for (const auto& [key, linear] : found) list.push_back(linear);
  return list;
}

const char* csv_name(Collective op) {
  switch (op) {
    case Collective::AllReduce: return "allreduce";
    case Collective::AllGather: return "allgather";
    case Collective::ReduceScatter: return "reducescatter";
    case Collective::AllToAll: return "alltoall";
    default: return "";
  }
}

}  // namespace plan::derive
