// The cluster that a measured profile describes. Tested by tests/presets/hardware_profile_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "presets/default_cluster.hpp"
#include "presets/hardware.hpp"
#include "presets/hardware_physics.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostCells = 200'000;  // of a grid; exact shapes multiply its axes

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

void apply_memory(const HardwareProfile& profile, Gpu& gpu) {
  if (profile.memory.usable_gib > 0) gpu.memory = round_bytes(profile.memory.usable_gib * kGiB);
  if (profile.memory.context_gib > 0) gpu.context = round_bytes(profile.memory.context_gib * kGiB);
  const double copy = profile.hbm.copy.value * 1e9;
  if (gpu.memory_bandwidth.value <= 0) gpu.memory_bandwidth = BytesPerSecond(copy);
  std::vector<double> efficiencies, floors;
  for (const ProfileKernel& kernel : profile.memory_bound) {
    if (kernel.efficiency > 0) efficiencies.push_back(kernel.efficiency);
    if (kernel.fixed_us > 0) floors.push_back(kernel.fixed_us);
  }
  const double share = efficiencies.empty() ? 1 : middle(efficiencies);
  if (copy > 0) gpu.memory_efficiency = std::clamp(share * copy / gpu.memory_bandwidth.value, 0.01, 1.0);
  if (!floors.empty()) gpu.kernel_floor = Seconds(middle(floors) * 1e-6);
  const Measured& link =
      profile.host_link.all_gpus_h2d.known() ? profile.host_link.all_gpus_h2d : profile.host_link.h2d;
  if (link.known()) gpu.host_link = BytesPerSecond(link.value * 1e9);
}

GemmFit roofline_of(const ProfileGemm& gemm) {
  return {.t0 = Seconds(gemm.t0_us * 1e-6),
          .rate = FlopsPerSecond(gemm.f_tflops * 1e12),
          .bandwidth = BytesPerSecond(gemm.w_tb_s * 1e12),
          .provenance = Provenance::Measured};
}

/// A measured data type replaces all that the data sheet's tables say about it.
void apply_gemm(const HardwareProfile& profile, Gpu& gpu) {
  std::array<bool, kDTypes> cleared{};
  for (const ProfileGemm& gemm : profile.gemm) {
    const DType dtype = dtype_of_format(gemm.format);
    const auto d = static_cast<std::size_t>(dtype), o = static_cast<std::size_t>(gemm.orientation);
    if (gemm.f_tflops <= 0) continue;
    if (!cleared[d]) gpu.gemm[d] = {};
    cleared[d] = true;
    GemmTable& table = gpu.gemm[d][o];
    if (!table.grid.empty() && gemm.format != "fp8") continue;  // fp8 before mxfp8 where both were measured
    table.fit = roofline_of(gemm);
    table.grid = grid_of_points(gemm.grid, table.fit, dtype, gemm.orientation);
    if (gpu.peak[d].value <= 0) gpu.peak[d] = table.fit.rate;
    if (gemm.sustained_tflops > 0 && gemm.burst_tflops > 0)
      gpu.sustained[d] = std::clamp(gemm.sustained_tflops / gemm.burst_tflops, 0.3, 1.0);
  }
}

/// The widest head measured; a backward pass that was not measured keeps its ratio to forward.
void apply_attention(const HardwareProfile& profile, Gpu& gpu) {
  const std::array<AttentionFit, 2> before = gpu.attention;
  std::array<int, 2> width{};
  for (const ProfileAttention& a : profile.attention) {
    const std::size_t pass = a.backward ? 1 : 0;
    if (a.fmax_tflops <= 0 || grade(a.quality) == "unfit" || a.head_dim <= width[pass]) continue;
    width[pass] = a.head_dim;
    gpu.attention[pass] = {.t0 = Seconds(a.t0_us * 1e-6),
                           .rate = FlopsPerSecond(a.fmax_tflops * 1e12),
                           .s0 = a.s0,
                           .b0 = a.b0,
                           .d0 = before[pass].d0,
                           .provenance = Provenance::Measured};
  }
  if (width[0] > 0 && width[1] == 0 && before[0].rate.value > 0 && before[1].rate.value > 0)
    gpu.attention[1].rate = before[1].rate * (gpu.attention[0].rate.value / before[0].rate.value);
}

CollectiveFit fit_of(const ProfileCurve& curve) {
  CollectiveFit fit{.op = curve.op,
                    .ranks = curve.layout.n,
                    .alpha = Seconds(curve.alpha_us * 1e-6),
                    .busbw = BytesPerSecond(curve.busbw_gb_s * 1e9),
                    .p = curve.p,
                    .provenance = Provenance::Measured};
  const CollectiveFit law = fit;
  std::vector<CurvePoint> table = curve.table;
  std::sort(table.begin(), table.end(), [](const CurvePoint& a, const CurvePoint& b) { return a.bytes < b.bytes; });
  for (const CurvePoint& point : table) {
    fit.log_bytes.push_back(static_cast<float>(std::log(point.bytes)));
    fit.log_ratio.push_back(
        static_cast<float>(std::log(point.us * 1e-6 / curve_time(law, RealBytes(point.bytes), law.ranks).value)));
  }
  return fit;
}

/// Better evidence for training first: all groups at once before one alone, 16-bit data before others.
bool better(const ProfileCurve& a, const ProfileCurve& b) {
  const auto rank = [](const ProfileCurve& c) {
    return std::pair(c.layout.all,
                     c.dtype == "bf16" || c.dtype == "fp16" || c.dtype == "half" || c.dtype == "bfloat16");
  };
  return rank(a) > rank(b);
}

/// A fit to small messages says little of large ones: where it leads above what the link carries and above all that was
/// measured, large messages take the link's own rate, and the largest that was measured is told. NCCL's all-reduce in
/// NVLink switches is above the link's rate by less than this.
void bound_by_link(ProfileCurve& curve, BytesPerSecond link, std::vector<std::string>& refused) {
  constexpr double kBeyondLink = 1.1;
  if (curve.layout.nodes > 1 || curve.table.empty() || !(curve.busbw_gb_s * 1e9 > kBeyondLink * link.value)) return;
  double reached = 0, largest = 0;
  for (const auto& row : curve.table) {
    reached = std::max(reached, row.bytes * wire_factor(curve.op, curve.layout.n) / row.us / 1e3);
    largest = std::max(largest, row.bytes);
  }
  if (curve.busbw_gb_s <= kBeyondLink * reached) return;
  curve.busbw_gb_s = std::max(reached, link.value / 1e9);
  refused.push_back(fmt::format("{} n={} beyond {}, whose fit leads above the link", name(curve.op), curve.layout.n,
                                format_quantity(largest, Dimension::Bytes)));
}

std::vector<ProfileCurve> usable_curves(const HardwareProfile& profile, BytesPerSecond link,
                                        std::vector<std::string>& refused) {
  std::map<std::tuple<Collective, int, int>, ProfileCurve> best;
  for (const ProfileCurve& curve : profile.collectives) {
    if (curve.alpha_us <= 0 || curve.busbw_gb_s <= 0 || grade(curve.quality) == "unfit") {
      refused.push_back(fmt::format("{} n={} (no fit)", name(curve.op), curve.layout.n));
      continue;
    }
    const std::tuple key(curve.op, curve.layout.n, curve.layout.ranks_per_node);
    const auto found = best.find(key);
    if (found == best.end() || better(curve, found->second)) best[key] = curve;
  }
  std::vector<ProfileCurve> curves;
  for (auto& [key, curve] : best) {
    bound_by_link(curve, link, refused);
    curves.push_back(std::move(curve));
  }
  return curves;
}

void apply_curves(const std::vector<ProfileCurve>& curves, Cluster& cluster) {
  std::vector<CollectiveFit> inside;
  for (const ProfileCurve& curve : curves) {
    if (curve.layout.nodes == 1 || curve.layout.nodes * cluster.gpus_per_node <= cluster.scale_up_size())
      inside.push_back(fit_of(curve));
    else
      cluster.network.push_back({curve.layout.ranks_per_node, fit_of(curve)});
  }
  std::erase_if(cluster.gpu.collectives, [&](const CollectiveFit& shipped) {
    return std::any_of(inside.begin(), inside.end(), [&](const CollectiveFit& own) { return own.op == shipped.op; });
  });
  for (CollectiveFit& fit : inside) cluster.gpu.collectives.push_back(std::move(fit));
}

/// Slowest of the direct copies between GPUs of a node: what a hand-over between stages of a pipeline waits for, where
/// NCCL's own send was not measured.
void apply_pairs(const HardwareProfile& profile, Cluster& cluster) {
  std::vector<CollectiveFit>& all = cluster.gpu.collectives;
  std::vector<ProfilePair> timed;
  std::copy_if(profile.pairs.begin(), profile.pairs.end(), std::back_inserter(timed),
               [](const ProfilePair& pair) { return pair.gb_s > 0; });
  if (timed.empty() || std::any_of(all.begin(), all.end(), [](const CollectiveFit& fit) {
        return fit.op == Collective::SendRecv && fit.provenance == Provenance::Measured;
      }))
    return;
  const auto slowest = std::min_element(timed.begin(), timed.end(),
                                        [](const ProfilePair& a, const ProfilePair& b) { return a.gb_s < b.gb_s; });
  CollectiveFit fit = scale_up_fit(cluster.gpu, Collective::SendRecv, 2);
  fit.busbw = BytesPerSecond(slowest->gb_s * 1e9);
  fit.provenance = Provenance::Measured;
  if (slowest->latency_us > 0) fit.alpha = Seconds(slowest->latency_us * 1e-6);
  std::erase_if(all, [](const CollectiveFit& shipped) { return shipped.op == Collective::SendRecv; });
  all.push_back(std::move(fit));
}

/// Beside communication a product takes `c` times as long, and the communication `m` times: each second of it that is
/// hidden lasts m, and costs the product m (1 - 1/c) of them.
void apply_overlap(const HardwareProfile& profile, Calibration& calibration) {
  std::vector<double> taxes;
  for (const ProfileOverlap& o : profile.overlap)
    if (o.compute_slowdown >= 1 && o.comm_slowdown >= 1)
      taxes.push_back(o.comm_slowdown * (1 - 1 / o.compute_slowdown));
  if (!taxes.empty()) calibration.overlap_tax = middle(taxes);
}

/// GPUs of a host: what the driver listed there; else what a hand-written profile says. A tool that ran on some of a
/// host's GPUs saw no more than these, so its number is a least one.
int host_gpus(const HardwareProfile& profile, int usual) {
  if (profile.host_gpus > 0) return profile.host_gpus;
  if (profile.gpus_per_node < 2) return usual;
  return profile.provenance.empty() ? profile.gpus_per_node : std::max(usual, profile.gpus_per_node);
}

void apply_tiers(const HardwareProfile& profile, Cluster& cluster) {
  const int before_gpus = cluster.gpus_per_node;
  cluster.gpus_per_node = host_gpus(profile, before_gpus);
  if (profile.host_memory_gib > 0) cluster.host_memory = round_bytes(profile.host_memory_gib * kGiB);
  if (cluster.gpus_per_node != before_gpus && cluster.nics_per_node > 0) cluster.nics_per_node = cluster.gpus_per_node;
  if (profile.tiers.empty()) return;
  const std::vector<Tier> usual = cluster.tiers;
  cluster.tiers.clear();
  const auto own = std::find_if(profile.tiers.begin(), profile.tiers.end(),
                                [](const ProfileTier& tier) { return tier.kind != "node"; });
  if (own == profile.tiers.end()) return void(cluster.tiers = usual);
  if (own->kind == "scale_out") cluster.tiers.push_back(usual.front());  // a network alone says nothing of the node
  for (const ProfileTier& from : profile.tiers) {
    if (from.kind == "node") continue;  // describes the host; its links are those of the tier around it
    const bool first = cluster.tiers.empty();
    const Tier& known = first ? usual.front() : usual.back();  // for what the profile does not say
    Tier tier{.name = from.id, .size = first ? known.size : kAnyGpus, .oversubscription = from.oversubscription};
    if (from.size > 1) tier.size = from.size;
    tier.bandwidth = known.bandwidth;
    tier.latency = known.latency;
    if (from.per_gpu_gb_s > 0) tier.bandwidth = BytesPerSecond(from.per_gpu_gb_s * 1e9);
    if (from.measured_gb_s > 0 && !first) {
      tier.bandwidth = BytesPerSecond(from.measured_gb_s * 1e9);
      tier.provenance = Provenance::Measured;
    }
    if (from.latency_us > 0) tier.latency = Seconds(from.latency_us * 1e-6);
    cluster.tiers.push_back(std::move(tier));
  }
  if (cluster.tiers.size() == 1) cluster.tiers.push_back(usual.back());
  const BytesPerSecond before = cluster.gpu.scale_up;
  cluster.gpu.scale_up = cluster.tiers.front().bandwidth;
  if (before.value > 0 && cluster.gpu.scale_up.value > 0)  // shipped curves are shares of the link
    for (CollectiveFit& fit : cluster.gpu.collectives) fit.busbw = fit.busbw * (cluster.gpu.scale_up / before);
  cluster.gpu.scale_up_size = cluster.tiers.front().size;
}

void apply_nccl(const HardwareProfile& profile, NcclMemory& nccl) {
  for (const ProfileNcclMemory& m : profile.nccl_memory) {
    if (m.ranks < 2 || m.gib <= 0) continue;
    nccl.ranks = m.ranks;
    const Bytes bytes = round_bytes(m.gib * kGiB);
    if (m.what == "init") nccl.communicator = bytes;
    if (m.what == "all_reduce") nccl.all_reduce = bytes;
    if (m.what == "all_to_all") nccl.all_to_all = bytes;
  }
  nccl.channels = profile.nccl_channels.collective;
  nccl.p2p_channels = profile.nccl_channels.p2p;
}

void tell_parts(const HardwareProfile& profile, std::vector<std::string> refused, Cluster& cluster) {
  const auto part = [&](bool measured, std::string what) {
    (measured ? cluster.measured_parts : cluster.unmeasured_parts).push_back(std::move(what));
  };
  std::array<bool, kDTypes> gemm{};
  for (const ProfileGemm& g : profile.gemm)
    if (g.f_tflops > 0) gemm[static_cast<std::size_t>(dtype_of_format(g.format))] = true;
  std::string types;
  for (const Named<DType>& row : kDTypeNames)
    if (gemm[static_cast<std::size_t>(row.value)]) types += fmt::format(" {}", row.name);
  part(!types.empty(), "GEMM" + types);
  cluster.probed = {.memory = profile.memory.usable_gib > 0,
                    .bandwidth = profile.hbm.copy.known(),
                    .host_link = profile.host_link.all_gpus_h2d.known() || profile.host_link.h2d.known()};
  part(!profile.attention.empty(), "attention");
  part(cluster.probed.bandwidth, "memory bandwidth");
  part(cluster.probed.memory, "memory");
  part(cluster.probed.host_link, "host link");
  bool inside = false;
  for (const CollectiveFit& fit : cluster.gpu.collectives)
    inside = inside || (fit.provenance == Provenance::Measured && fit.op != Collective::SendRecv);
  part(cluster.nccl.all_reduce.value > 0, "NCCL's memory");
  part(inside, "collectives in a node");
  part(!profile.pairs.empty(), "links between GPUs");
  part(!profile.overlap.empty(), "overlap");
  part(!cluster.network.empty(), "collectives across nodes");
  for (std::string& text : refused) cluster.unmeasured_parts.push_back(std::move(text));
  cluster.measured = gemm[static_cast<std::size_t>(DType::Bf16)] && inside;
}

std::vector<double> axis(const std::vector<GemmPoint>& points, double GemmPoint::*of) {
  std::vector<double> values;
  for (const GemmPoint& p : points) values.push_back(p.*of);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// A measured shape in logarithms, and ln(measured rate / roofline rate).
struct Residual {
  double m, n, k, value;
};

double between(const std::vector<Residual>& known, double m, double n, double k) {
  double sum = 0, weights = 0;
  for (const Residual& r : known) {
    const double d2 = (r.m - m) * (r.m - m) + (r.n - n) * (r.n - n) + (r.k - k) * (r.k - k);
    if (d2 < 1e-12) return r.value;
    const double weight = 1 / (d2 * d2);
    sum += weight * r.value;
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

}  // namespace

DType dtype_of_format(std::string_view format) {
  if (format.find("fp4") != std::string_view::npos) return DType::Fp4;
  if (format.find("fp8") != std::string_view::npos || format == "e4m3" || format == "e5m2") return DType::Fp8;
  if (format == "fp16" || format == "half") return DType::Fp16;
  if (format == "fp32" || format == "tf32") return DType::Fp32;
  return DType::Bf16;
}

GemmGrid grid_of_points(const std::vector<GemmPoint>& points, const GemmFit& fit, DType dtype,
                        Orientation orientation) {
  const std::vector<double> m = axis(points, &GemmPoint::m), n = axis(points, &GemmPoint::n),
                            k = axis(points, &GemmPoint::k);
  if (points.empty() || m.size() * n.size() * k.size() > kMostCells) return {};
  const auto roofline = [&](double a, double b, double c) {
    const double flops = 2 * a * b * c;
    return flops / roofline_time(fit, Flops(flops), gemm_bytes({a, b, c}, dtype, orientation)).value;
  };
  std::vector<Residual> known;
  for (const GemmPoint& p : points)
    known.push_back({std::log(p.m), std::log(p.n), std::log(p.k),
                     std::log(2 * p.m * p.n * p.k / (p.us * 1e-6) / roofline(p.m, p.n, p.k))});
  std::vector<double> rates;
  rates.reserve(m.size() * n.size() * k.size());
  for (const double a : m)
    for (const double b : n)
      for (const double c : k)
        rates.push_back(roofline(a, b, c) * std::exp(between(known, std::log(a), std::log(b), std::log(c))));
  return make_gemm_grid(m, n, k, rates);
}

Result<Cluster> cluster_of_profile(const HardwareProfile& profile, const Gpu& data_sheet) {
  if (profile.synthetic)
    return fail(Error{"synthetic_profile",
                      "the profile was measured with several ranks on one GPU; its times mean nothing for planning",
                      {},
                      {"probe with one rank a GPU"}});
  if (Errors beyond = beyond_data_sheet(profile, data_sheet); !beyond.empty()) return fail(std::move(beyond));
  Cluster cluster = default_cluster(data_sheet);
  cluster.name = profile.name.empty() ? data_sheet.name : profile.name;
  cluster.gpu.measured_as.clear();
  if (profile.gpu.sm_count > 0) cluster.gpu.sm_count = profile.gpu.sm_count;
  apply_memory(profile, cluster.gpu);
  apply_gemm(profile, cluster.gpu);
  apply_attention(profile, cluster.gpu);
  apply_tiers(profile, cluster);
  apply_nccl(profile, cluster.nccl);
  std::vector<std::string> refused;
  apply_curves(usable_curves(profile, data_sheet.scale_up, refused), cluster);
  apply_pairs(profile, cluster);
  apply_overlap(profile, cluster.calibration);
  tell_parts(profile, std::move(refused), cluster);
  if (cluster.gpu.memory.value <= 0)
    return fail(
        Error{"no_memory",
              fmt::format("the profile states no memory, and no data sheet is known for `{}`", profile.gpu.model),
              {},
              {"add `memory: {usable_gib: N}`, or `preset: NAME` under `gpu`"}});
  return cluster;
}

}  // namespace plan
