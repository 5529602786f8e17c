// From observations to a profile. Tested by tests/hwprobe/assemble_test.cpp.
#include "hwprobe/profile/assemble.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "formulas/efficiency.hpp"
#include "formulas/names.hpp"
#include "hwprobe/fits/fit.hpp"
#include "hwprobe/fits/quality.hpp"
#include "hwprobe/import/import.hpp"

namespace plan {
namespace {

constexpr double kSlowRank = 0.04;  // behind the median rank: worth a warning
constexpr double kNarrower = 0.15;  // share that a tier of the network lacks of the one below it
constexpr double kNoisy = 0.15;     // spread of a large operation
constexpr double kDriftPct = 3;     // of a canary: figures of its section changed while they were taken
constexpr std::size_t kFewestForRoofline = 4;

const plan_probe_point& point(const Observation& o) { return o.planned.point; }

double gb_s(const Observation& o) { return o.summary.median > 0 ? o.bytes / o.summary.median / 1e9 : 0; }

DType dtype_of(int format) {
  switch (format) {
    case PLAN_PROBE_FP32: return DType::Fp32;
    case PLAN_PROBE_FP16: return DType::Fp16;
    case PLAN_PROBE_FP8:
    case PLAN_PROBE_MXFP8: return DType::Fp8;
    case PLAN_PROBE_NVFP4: return DType::Fp4;
    default: return DType::Bf16;
  }
}

void take_memory(const Observation& o, HardwareProfile& profile, const std::string& prov) {
  ProfileMemory& m = profile.memory;
  const auto gib = [](double bytes) { return bytes / kGiB; };
  if (o.value[0] > 0) m.total_gib = gib(o.value[0]);
  if (o.value[1] > 0 && m.usable_gib <= 0) m.usable_gib = gib(o.value[1]);
  if (o.value[2] > 0) m.context_gib = gib(o.value[2]);
  if (o.value[3] > 0) m.cublas_workspace_gib = gib(o.value[3]);
  m.prov = prov;
}

/// Copy rate of the largest buffer; the least time is what the smallest needs beyond its bytes.
void take_bandwidth(const std::vector<const Observation*>& all, HardwareProfile& profile, const std::string& prov) {
  const Observation *largest = nullptr, *smallest = nullptr;
  for (const Observation* o : all) {
    if (point(*o).kind == PLAN_PROBE_TRIAD) profile.hbm.triad = {gb_s(*o), o->summary.spread};
    if (point(*o).kind != PLAN_PROBE_COPY) continue;
    if (largest == nullptr || o->bytes > largest->bytes) largest = o;
    if (smallest == nullptr || o->bytes < smallest->bytes) smallest = o;
  }
  if (largest == nullptr) return;
  profile.hbm.copy = {gb_s(*largest), largest->summary.spread};
  profile.hbm.prov = prov;
  if (smallest != largest)
    profile.hbm.fixed_us =
        std::max(0.0, smallest->summary.median - smallest->bytes / (profile.hbm.copy.value * 1e9)) * 1e6;
}

void fit_roofline(ProfileGemm& gemm, DType dtype, const Gpu& expected) {
  std::vector<GemmSample> samples;
  double best = 0;
  for (const GemmPoint& p : gemm.grid) {
    const double flops = 2 * p.m * p.n * p.k;
    samples.push_back({flops, gemm_bytes({p.m, p.n, p.k}, dtype, gemm.orientation).value, p.us * 1e-6});
    best = std::max(best, flops / (p.us * 1e-6));
  }
  GemmFit start = gemm_fit(expected, dtype, gemm.orientation);
  start.rate = FlopsPerSecond(best);
  if (samples.size() < kFewestForRoofline) {  // too few to tell the three apart: the data sheet's, at the measured rate
    gemm.t0_us = start.t0.value * 1e6;
    gemm.f_tflops = best / 1e12;
    gemm.w_tb_s = start.bandwidth.value / 1e12;
    return;
  }
  const GemmFit fit = fit_gemm(samples, start);
  gemm.t0_us = fit.t0.value * 1e6;
  gemm.f_tflops = fit.rate.value / 1e12;
  gemm.w_tb_s = fit.bandwidth.value / 1e12;
  gemm.quality = gemm_quality(samples, fit);
}

void take_gemms(const std::vector<const Observation*>& all, const JobFacts& facts, HardwareProfile& profile,
                const std::string& prov) {
  std::map<std::pair<int, int>, ProfileGemm> tables;
  std::map<int, std::array<double, 2>> held;  // burst and sustained seconds by format
  for (const Observation* o : all) {
    const plan_probe_point& p = point(*o);
    if (p.kind == PLAN_PROBE_SUSTAINED) {
      held[p.format] = {o->value[0], o->value[1]};
      continue;
    }
    ProfileGemm& table = tables[{p.format, p.orientation}];
    table.grid.push_back({static_cast<double>(p.number[0]), static_cast<double>(p.number[1]),
                          static_cast<double>(p.number[2]), o->summary.median * 1e6, o->summary.spread});
  }
  for (auto& [key, table] : tables) {
    table.format = std::string(format_name(key.first));
    table.orientation = static_cast<Orientation>(key.second);
    table.prov = prov;
    std::sort(table.grid.begin(), table.grid.end(),
              [](const GemmPoint& a, const GemmPoint& b) { return std::tie(a.m, a.n, a.k) < std::tie(b.m, b.n, b.k); });
    fit_roofline(table, dtype_of(key.first), facts.expected.gpu);
    constexpr double kHeldFlops = 2.0 * 8192 * 8192 * 8192;
    if (const auto h = held.find(key.first); key.second == 0 && h != held.end() && h->second[1] > 0) {
      table.burst_tflops = kHeldFlops / h->second[0] / 1e12;
      table.sustained_tflops = kHeldFlops / h->second[1] / 1e12;
      for (const ProfileConditions& conditions : facts.conditions)
        if (conditions.section == name(Section::Gemm))
          table.sm_clock_mhz_p50 = conditions.sm_clock_mhz_p50, table.throttle = conditions.throttle;
    }
    profile.gemm.push_back(std::move(table));
  }
}

void take_attention(const std::vector<const Observation*>& all, const JobFacts& facts, HardwareProfile& profile,
                    const std::string& prov) {
  std::map<std::pair<int, int>, ProfileAttention> tables;
  for (const Observation* o : all) {
    const auto number = [&](std::size_t i) { return static_cast<double>(point(*o).number[i]); };
    ProfileAttention& table = tables[{point(*o).orientation, static_cast<int>(point(*o).number[4])}];
    table.grid.push_back({number(0), number(1), number(2), number(3), o->summary.median * 1e6, o->summary.spread});
  }
  for (auto& [key, table] : tables) {
    table.backward = key.first == 1;
    table.head_dim = key.second;
    table.prov = prov;
    std::vector<AttentionSample> samples;
    for (const AttentionPoint& p : table.grid) {
      const double d = table.head_dim;
      samples.push_back({{p.batch, p.seq, p.seq / 2, p.heads, d, d}, p.us * 1e-6});
    }
    AttentionFit start = facts.expected.gpu.attention[table.backward ? 1 : 0];
    if (start.rate.value <= 0) start = {.t0 = Seconds(6e-6), .rate = FlopsPerSecond(3e14), .s0 = 1100, .b0 = 16};
    if (samples.size() > 4) {
      const AttentionFit fit = fit_attention(samples, start, table.backward);
      table.t0_us = fit.t0.value * 1e6;
      table.fmax_tflops = fit.rate.value / 1e12;
      table.s0 = fit.s0;
      table.b0 = fit.b0;
      table.quality = attention_quality(samples, fit, table.backward);
    }
    profile.attention.push_back(std::move(table));
  }
}

/// Rate of the largest array over the copy rate, and what the smallest needs beyond its bytes.
void take_kernels(const std::vector<const Observation*>& all, HardwareProfile& profile, const std::string& prov) {
  std::map<std::int64_t, std::pair<const Observation*, const Observation*>> ends;
  for (const Observation* o : all) {
    auto& [small, large] = ends[point(*o).number[0]];
    if (small == nullptr || o->bytes < small->bytes) small = o;
    if (large == nullptr || o->bytes > large->bytes) large = o;
  }
  for (const auto& [kernel, pair] : ends) {
    ProfileKernel row{.op = std::string(kernel_name(static_cast<int>(kernel))), .prov = prov};
    row.gb_s = gb_s(*pair.second);
    row.spread = pair.second->summary.spread;
    if (profile.hbm.copy.known()) row.efficiency = row.gb_s / profile.hbm.copy.value;
    if (pair.first != pair.second && row.gb_s > 0)
      row.fixed_us = std::max(0.0, pair.first->summary.median - pair.first->bytes / (row.gb_s * 1e9)) * 1e6;
    profile.memory_bound.push_back(std::move(row));
  }
}

/// All ranks copy at once; alone is the fastest rank's rate on one GPU.
void take_host_link(const std::vector<const Observation*>& all, const JobFacts& facts, HardwareProfile& profile,
                    const std::string& prov) {
  std::array<double, 3> largest{};
  for (const Observation* o : all) {
    const auto way = static_cast<std::size_t>(point(*o).number[0]);
    if (way > 2 || o->bytes < largest[way]) continue;
    largest[way] = o->bytes;
    const Measured rate{gb_s(*o), o->summary.spread};
    if (way == 0) (facts.ranks_per_node > 1 ? profile.host_link.all_gpus_h2d : profile.host_link.h2d) = rate;
    if (way == 0 && facts.ranks_per_node > 1 && !o->medians.empty())
      profile.host_link.h2d = {o->bytes / *std::min_element(o->medians.begin(), o->medians.end()) / 1e9, rate.spread};
    if (way == 1) profile.host_link.d2h = rate;
    if (way == 2) profile.host_link.bidir = rate;
  }
  profile.host_link.prov = prov;
}

void take_pairs(const std::vector<const Observation*>& all, const JobFacts& facts, HardwareProfile& profile,
                const std::string& prov) {
  for (const Observation* o : all)
    for (std::size_t i = 0; i < o->medians.size(); ++i) {
      const int from = o->ranks[i] % std::max(1, facts.ranks_per_node);
      const int to = static_cast<int>((from + point(*o).number[0]) % std::max(1, facts.ranks_per_node));
      if (o->ranks[i] < facts.ranks_per_node && o->medians[i] > 0)
        profile.pairs.push_back({.from = from, .to = to, .gb_s = o->bytes / o->medians[i] / 1e9, .prov = prov});
    }
}

/// "RING/LL, from 2097152 bytes NVLS/SIMPLE".
std::string choice_text(const std::map<std::int64_t, std::string>& by_bytes) {
  std::string text, last;
  for (const auto& [bytes, choice] : by_bytes) {
    if (choice != last) text += text.empty() ? choice : fmt::format(", from {} bytes {}", bytes, choice);
    last = choice;
  }
  return text;
}

void take_collectives(const std::vector<const Observation*>& all, const JobFacts& facts, HardwareProfile& profile,
                      const std::string& prov) {
  const int per_node = std::max(1, facts.ranks_per_node);
  std::map<std::array<int, 5>, ProfileCurve> curves;
  std::map<const ProfileCurve*, std::map<std::int64_t, std::string>> choices;  // by bytes
  for (const Observation* o : all) {
    const plan_probe_point& p = point(*o);
    if (p.kind == PLAN_PROBE_NCCL_MEMORY) {
      const std::string what = p.op < 0 ? "init" : std::string(name(static_cast<Collective>(p.op)));
      profile.nccl_memory.push_back({what, p.group_size, std::max(0.0, o->value[0]) / kGiB, prov});
      if (o->value[1] > 0)
        profile.nccl_channels = {static_cast<int>(o->value[1]), static_cast<int>(o->value[2]),
                                 static_cast<int>(o->value[3]), prov};
      continue;
    }
    ProfileCurve& curve = curves[{p.op, p.format, p.group_size, p.group_stride, p.all_groups}];
    curve.op = static_cast<Collective>(p.op);
    curve.dtype = std::string(format_name(p.format));
    const int inside = std::max(1, std::min(p.group_size, per_node / std::max(1, p.group_stride)));
    curve.layout = {p.group_size, inside, std::max(1, p.group_size / inside), p.all_groups != 0};
    curve.prov = prov;
    curve.table.push_back({static_cast<double>(p.number[0]), o->summary.median * 1e6, o->summary.spread});
    if (!o->text.empty()) choices[&curve][p.number[0]] = o->text;
    if (o->two_modes && (curve.quality.flags.empty() || curve.quality.flags.back() != "bimodal"))
      curve.quality.flags.emplace_back("bimodal");
  }
  for (auto& [key, curve] : curves) {
    fit_curve(curve);
    curve.algo = choice_text(choices[&curve]);
    profile.collectives.push_back(std::move(curve));
  }
}

void take_overlap(const std::vector<const Observation*>& all, HardwareProfile& profile, const std::string& prov) {
  for (const Observation* o : all) {
    const double compute = o->value[0], comm = o->value[1], compute_both = o->value[2], comm_both = o->value[3];
    if (compute <= 0 || comm <= 0) continue;
    profile.overlap.push_back({"gemm", std::string(name(static_cast<Collective>(point(*o).op))),
                               std::max(1.0, compute_both / compute), std::max(1.0, comm_both / comm), prov});
  }
}

/// The scale-up domain and the network as far as this job could see them.
/// What groups of one rank a node reached, by their number of nodes, all groups at once.
std::map<int, double> network_rates(const HardwareProfile& profile) {
  std::map<int, double> rates;
  for (const ProfileCurve& c : profile.collectives)
    if (c.layout.nodes > 1 && c.layout.ranks_per_node == 1 && c.layout.all && c.op == Collective::AllGather)
      rates[c.layout.nodes] = std::max(rates[c.layout.nodes], c.busbw_gb_s);
  return rates;
}

/// Tiers of the network, the innermost first. A job's nodes are numbered in the order of its fabric, so that groups of
/// a few lie under one switch: where larger groups are slower for good, the way up is narrower, and an upper tier
/// begins.
void take_network(const JobFacts& facts, HardwareProfile& profile, const std::string& prov) {
  ProfileTier tier{.id = "network", .kind = "scale_out", .prov = prov};
  if (facts.expected.tiers.size() > 1) tier.per_gpu_gb_s = facts.expected.tiers[1].bandwidth.value / 1e9;
  const std::map<int, double> rates = network_rates(profile);
  int reached = 0;  // nodes
  for (auto i = rates.begin(); i != rates.end(); ++i) {
    double beyond = 0;
    for (auto j = i; j != rates.end(); ++j) beyond = std::max(beyond, j->second);
    if (reached > 0 && beyond < (1 - kNarrower) * tier.measured_gb_s) {
      tier.size = reached * std::max(facts.ranks_per_node, facts.host_gpus);
      profile.tiers.push_back(tier);
      tier = {.id = fmt::format("network_above_{}_nodes", reached), .kind = "scale_out", .prov = prov};
    }
    tier.measured_gb_s = std::max(tier.measured_gb_s, i->second);
    reached = i->first;
  }
  profile.tiers.push_back(tier);
}

void take_tiers(const JobFacts& facts, HardwareProfile& profile, const std::string& prov) {
  if (facts.ranks < 2 || facts.expected.tiers.empty()) return;
  const Tier& first = facts.expected.tiers.front();
  ProfileTier inside{.id = first.name, .kind = "scale_up", .size = std::max(first.size, facts.ranks_per_node)};
  inside.per_gpu_gb_s = first.bandwidth.value / 1e9;
  inside.prov = prov;
  for (const ProfileCurve& c : profile.collectives)
    if (c.op == Collective::AllGather && c.layout.nodes == 1 && c.layout.all)
      inside.measured_gb_s = std::max(inside.measured_gb_s, c.busbw_gb_s);
  profile.tiers.push_back(inside);
  if (facts.nodes > 1) take_network(facts, profile, prov);
}

/// One rank well behind the others in the same compute point.
void warn_slow_ranks(const std::vector<const Observation*>& all, const JobFacts& facts, HardwareProfile& profile) {
  std::map<int, std::vector<double>> behind;
  for (const Observation* o : all) {
    const double usual = median(o->medians);
    for (std::size_t i = 0; i < o->medians.size() && usual > 0; ++i)
      behind[o->ranks[i]].push_back(o->medians[i] / usual - 1);
  }
  for (const auto& [rank, shares] : behind) {
    const double share = median(shares);
    if (shares.size() < 3 || share < kSlowRank) continue;
    const std::string where = static_cast<std::size_t>(rank) < facts.where.size()
                                  ? facts.where[static_cast<std::size_t>(rank)]
                                  : fmt::format("rank {}", rank);
    profile.warnings.push_back(
        {"SLOW_GPU", where, fmt::format("GEMMs ran {:.0f} % below the other GPUs", 100 * share)});
  }
}

void take_conditions(const JobFacts& facts, HardwareProfile& profile, const std::string& prov) {
  profile.conditions = facts.conditions;
  for (ProfileConditions& c : profile.conditions) {
    c.prov = prov;
    if (c.drift_pct > kDriftPct)
      profile.warnings.push_back(
          {"DRIFT", c.section, fmt::format("a fixed operation moved by {:.1f} % meanwhile", c.drift_pct)});
  }
}

void warn_noise(HardwareProfile& profile) {
  for (const ProfileCurve& c : profile.collectives) {
    if (!c.table.empty() && c.table.back().spread > kNoisy)
      profile.warnings.push_back({"NOISY", fmt::format("{} n={}", name(c.op), c.layout.n),
                                  fmt::format("times of {:.0f} MB vary by {:.0f} %; another job may share the network",
                                              c.table.back().bytes / 1e6, 100 * c.table.back().spread)});
    if (grade(c.quality) == "unfit")
      profile.warnings.push_back({"UNFIT", fmt::format("{} n={}", name(c.op), c.layout.n),
                                  "no smooth curve passes near these times; the planner does not use it"});
  }
}

}  // namespace

HardwareProfile assemble(const JobFacts& facts, const std::vector<Observation>& observations) {
  HardwareProfile profile;
  profile.name = facts.name;
  profile.gpu = facts.gpu;
  profile.memory = facts.memory;
  profile.host_link = facts.host_link;
  profile.gpus_per_node = facts.ranks_per_node;
  profile.nodes = facts.nodes;
  profile.host_gpus = facts.host_gpus;
  profile.host_memory_gib = facts.host_memory_gib;
  profile.provenance = {facts.source};
  const std::string& prov = facts.source.id;
  std::array<std::vector<const Observation*>, kSections> by;
  for (const Observation& o : observations) by[static_cast<std::size_t>(o.planned.section)].push_back(&o);
  const auto section = [&](Section s) -> const auto& { return by[static_cast<std::size_t>(s)]; };
  for (const Observation* o : section(Section::Memory)) take_memory(*o, profile, prov);
  take_bandwidth(section(Section::Bandwidth), profile, prov);
  take_gemms(section(Section::Gemm), facts, profile, prov);
  take_attention(section(Section::Attention), facts, profile, prov);
  take_kernels(section(Section::Kernels), profile, prov);
  if (!section(Section::HostLink).empty()) take_host_link(section(Section::HostLink), facts, profile, prov);
  take_pairs(section(Section::Pairs), facts, profile, prov);
  take_collectives(section(Section::Collectives), facts, profile, prov);
  take_overlap(section(Section::Overlap), profile, prov);
  take_tiers(facts, profile, prov);
  warn_slow_ranks(section(Section::Gemm), facts, profile);
  warn_noise(profile);
  take_conditions(facts, profile, prov);
  return profile;
}

}  // namespace plan
