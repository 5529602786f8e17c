// Tables of measured rates: shares of a peak or a bandwidth, laid over a GPU. Tested by
// tests/presets/efficiency_test.cpp and random_efficiency_test.cpp.
#include "presets/efficiency_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr Named<Orientation> kOrientationNames[] = {
    {Orientation::Forward, "forward"}, {Orientation::DataGrad, "data_grad"}, {Orientation::WeightGrad, "weight_grad"}};

/// Measured rates are shares of a stated peak or bandwidth: numbers of `gpu` over those of the data sheet that the
/// rates were measured under, and whether that is another GPU's.
struct Scale {
  std::array<double, kDTypes> peak{1, 1, 1, 1, 1};
  double half = 1;  ///< of 16-bit products: bf16, or fp16 where there is no bf16
  double memory = 1;
  double scale_up = 1;
  bool inherited = false;
  Provenance of(Provenance own) const { return inherited ? Provenance::Inherited : own; }
};

const char* name_of(DType dtype) { return kDTypeNames[static_cast<std::size_t>(dtype)].name.data(); }

double ratio(double mine, double measured) { return mine > 0 && measured > 0 ? mine / measured : 1; }

Scale read_reference(yaml::Map root, const Gpu& gpu) {
  Scale scale;
  std::string name;
  root.text("gpu", name);
  yaml::Map reference = root.map("reference");
  scale.inherited = !gpu.efficiency.empty() && name != gpu.efficiency;
  for (const DType dtype : {DType::Fp32, DType::Fp8, DType::Fp4, DType::Fp16, DType::Bf16}) {
    const auto i = static_cast<std::size_t>(dtype);
    FlopsPerSecond peak;
    if (!reference.quantity(name_of(dtype), peak, yaml::kPositive, yaml::kOptional)) continue;
    scale.peak[i] = ratio(gpu.peak[i].value, peak.value);
    if (dtype == DType::Bf16 || dtype == DType::Fp16) scale.half = scale.peak[i];
  }
  BytesPerSecond memory, link;
  reference.quantity("memory_bandwidth", memory);
  reference.quantity("scale_up", link);
  reference.finish();
  scale.memory = ratio(gpu.memory_bandwidth.value, memory.value);
  scale.scale_up = ratio(gpu.scale_up.value, link.value);
  return scale;
}

/// Numbers of a scalar, separated by blanks: one scalar, because a grid of scalars takes YAML milliseconds.
std::vector<double> numbers(yaml::Map& map, std::string_view key, double unit) {
  std::string text;
  std::vector<double> values;
  if (!map.text(key, text)) return values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at < end && (*at == ' ' || *at == '\n')) ++at;
    if (at == end) return values;
    double value = 0;
    const auto [next, problem] = std::from_chars(at, end, value);
    if (problem != std::errc() || !(value > 0) || !std::isfinite(value)) {
      map.reader().error(map.node(), "bad_value", map.path_of(key) + " holds something that is not a positive number");
      return {};
    }
    values.push_back(value * unit);
    at = next;
  }
}

bool ascending(const std::vector<double>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
}

GemmFit read_roofline(yaml::Map fit, double rate, double bandwidth, Provenance provenance) {
  GemmFit read{.provenance = provenance};
  fit.quantity("floor", read.t0);
  fit.quantity("rate", read.rate);
  fit.quantity("bandwidth", read.bandwidth);
  fit.finish();
  read.rate = read.rate * rate;
  read.bandwidth = read.bandwidth * bandwidth;
  return read;
}

void read_gemm(yaml::Map map, const Scale& scale, Gpu& gpu) {
  DType dtype = DType::Bf16;
  Orientation orientation = Orientation::Forward;
  std::string source;
  map.word("dtype", dtype, kDTypeNames);
  map.word("orientation", orientation, kOrientationNames, yaml::kOptional);
  map.text("source", source);
  const double rate = scale.peak[static_cast<std::size_t>(dtype)];
  GemmTable table;
  table.fit = read_roofline(map.map("fit"), rate, scale.memory, scale.of(Provenance::Fitted));
  if (map.has("tflops")) {
    const auto m = numbers(map, "m", 1), n = numbers(map, "n", 1), k = numbers(map, "k", 1);
    const auto rates = numbers(map, "tflops", 1e12 * rate);
    if (m.empty() || n.empty() || k.empty() || rates.size() != m.size() * n.size() * k.size())
      map.reader().error(map.node(), "bad_value", map.path_of("tflops") + " needs one number for each of m x n x k");
    else if (!ascending(m) || !ascending(n) || !ascending(k))
      map.reader().error(map.node(), "bad_value", "the axes of a GEMM grid must ascend");
    else
      table.grid = make_gemm_grid(m, n, k, rates);
  }
  map.finish();
  gpu.gemm[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(orientation)] = std::move(table);
}

/// A section that the file may leave out, and that states its source.
template <class Read>
void read_section(yaml::Map& root, std::string_view name, const Read& read) {
  yaml::Map map = root.map(name, yaml::kOptional);
  if (map.node().kind != yaml::Kind::Map) return;
  std::string source;
  map.text("source", source);
  read(map);
  map.finish();
}

void read_sustained(yaml::Map root, Gpu& gpu) {
  read_section(root, "sustained", [&](yaml::Map& map) {
    for (std::size_t i = 0; i < kDTypes; ++i)
      map.number(kDTypeNames[i].name, gpu.sustained[i], {0.1, kMostSustained}, yaml::kOptional);
  });
}

void read_orientations(yaml::Map root, Gpu& gpu) {
  read_section(root, "orientation_ratio", [&](yaml::Map& map) {
    for (std::size_t i = 0; i < kDTypes; ++i) {
      yaml::Map row = map.map(kDTypeNames[i].name, yaml::kOptional);
      if (row.node().kind != yaml::Kind::Map) continue;
      for (int o = 1; o < kOrientations; ++o)
        row.number(kOrientationNames[o].name, gpu.orientation_ratio[i][static_cast<std::size_t>(o)], {0.1, 2});
      row.finish();
    }
  });
}

void read_grouped(yaml::Map root, const Scale& scale, Gpu& gpu) {
  read_section(root, "grouped_gemm", [&](yaml::Map& map) {
    for (int o = 0; o < kOrientations; ++o) {
      yaml::Map row = map.map(kOrientationNames[o].name);
      GroupedGemmFit& fit = gpu.grouped_gemm[static_cast<std::size_t>(o)];
      row.quantity("per_expert", fit.per_expert, yaml::kNotNegative);
      row.quantity("rate", fit.rate);
      row.quantity("bandwidth", fit.bandwidth);
      row.finish();
      fit.rate = fit.rate * scale.half;
      fit.bandwidth = fit.bandwidth * scale.memory;
      fit.provenance = scale.of(Provenance::Fitted);
    }
  });
}

void read_attention(yaml::Map root, const Scale& scale, Gpu& gpu) {
  read_section(root, "attention", [&](yaml::Map& map) {
    for (int pass = 0; pass < 2; ++pass) {
      yaml::Map row = map.map(pass == 0 ? "forward" : "backward");
      AttentionFit& fit = gpu.attention[static_cast<std::size_t>(pass)];
      row.quantity("floor", fit.t0);
      row.quantity("rate", fit.rate);
      row.number("s0", fit.s0, yaml::kNotNegative);
      row.number("b0", fit.b0, yaml::kNotNegative);
      row.number("d0", fit.d0, yaml::kNotNegative);
      row.finish();
      fit.rate = fit.rate * scale.half;
      fit.provenance = scale.of(Provenance::Fitted);
    }
  });
}

void read_curve(yaml::Map map, const std::vector<double>& bytes, const Scale& scale, Gpu& gpu) {
  CollectiveFit fit{.provenance = scale.of(Provenance::Imported)};
  map.word("op", fit.op, kCollectiveNames);
  map.integer("ranks", fit.ranks, {2, 1024});
  map.quantity("alpha", fit.alpha);
  map.quantity("busbw", fit.busbw);
  map.number("p", fit.p, {kLeastP, kMostP});
  if (map.has("us")) {
    const std::vector<double> seconds = numbers(map, "us", 1e-6);
    if (seconds.size() != bytes.size())
      map.reader().error(map.node(), "bad_value", map.path_of("us") + " needs one time for each of bytes");
    const CollectiveFit law = fit;
    const bool read = law.busbw.value > 0 && law.ranks > 1 && law.p > 0;  // what is not is an error already
    for (std::size_t i = 0; read && i < std::min(seconds.size(), bytes.size()); ++i) {
      fit.log_ratio.push_back(
          static_cast<float>(std::log(seconds[i] / curve_time(law, RealBytes(bytes[i]), fit.ranks).value)));
      fit.log_bytes.push_back(static_cast<float>(std::log(bytes[i])));
    }
  }
  map.finish();
  fit.busbw = fit.busbw * scale.scale_up;
  gpu.collectives.push_back(std::move(fit));
}

void read_collectives(yaml::Map root, const Scale& scale, Gpu& gpu) {
  read_section(root, "collectives", [&](yaml::Map& map) {
    const std::vector<double> bytes = numbers(map, "bytes", 1);
    if (!ascending(bytes)) map.reader().error(map.node(), "bad_value", "the sizes of a collective curve must ascend");
    gpu.collectives.clear();
    for (const yaml::Node* node : map.list("curves"))
      read_curve(map.reader().map(*node, "collectives.curves"), bytes, scale, gpu);
  });
}

}  // namespace

void read_efficiency_fields(yaml::Map& root, Gpu& gpu) {
  const Scale scale = read_reference(root, gpu);
  read_sustained(root, gpu);
  for (const yaml::Node* node : root.list("gemm", yaml::kOptional))
    read_gemm(root.reader().map(*node, "gemm"), scale, gpu);
  read_orientations(root, gpu);
  read_grouped(root, scale, gpu);
  read_attention(root, scale, gpu);
  read_collectives(root, scale, gpu);
  for (const char* key :
       {"gpu", "reference", "sustained", "gemm", "orientation_ratio", "grouped_gemm", "attention", "collectives"})
    root.get(key, yaml::kOptional);
  root.finish();
  if (!scale.inherited) return;
  const yaml::Node* name = root.get("gpu");
  gpu.measured_as = name != nullptr ? name->text : "";
}

Result<void> read_efficiency(std::string text, std::string file, Gpu& gpu) {
  const Result<yaml::Document> document = yaml::parse(std::move(text), std::move(file));
  if (!document) return tl::unexpected<Errors>(document.error());
  yaml::Reader reader(*document);
  yaml::Map root = reader.root();
  read_efficiency_fields(root, gpu);
  if (reader.failed()) return fail(reader.take());
  return {};
}

}  // namespace plan
