// Taking up a probe that ended early: which points a profile holds, and adding them to a new one.
// Tested by tests/hwprobe/assemble_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "formulas/names.hpp"
#include "hwprobe/import/import.hpp"
#include "hwprobe/profile/assemble.hpp"

namespace plan {
namespace {

constexpr std::string_view kOrientationWords[] = {"tn", "nn", "nt"};

/// Appends the elements whose key `profile` lacks.
template <class T, class Key>
void add_missing(std::vector<T>& own, const std::vector<T>& earlier, Key key) {
  for (const T& value : earlier)
    if (std::none_of(own.begin(), own.end(), [&](const T& o) { return key(o) == key(value); })) own.push_back(value);
}

}  // namespace

std::vector<std::string> measured_points(const HardwareProfile& profile) {
  std::vector<std::string> ids;
  if (profile.memory.context_gib > 0) ids.emplace_back("memory ladder");
  for (const ProfileGemm& g : profile.gemm) {
    const std::string_view o = kOrientationWords[static_cast<std::size_t>(g.orientation)];
    for (const GemmPoint& p : g.grid)
      ids.push_back(fmt::format("gemm {} {} {:.0f}x{:.0f}x{:.0f}", g.format, o, p.m, p.n, p.k));
    if (g.sustained_tflops > 0) ids.push_back(fmt::format("sustained {} 8192x8192x8192", g.format));
  }
  for (const ProfileAttention& a : profile.attention)
    for (const AttentionPoint& p : a.grid)
      ids.push_back(fmt::format("attention {} d{} b{:.0f} h{:.0f}/{:.0f} s{:.0f}", a.backward ? "bwd" : "fwd",
                                a.head_dim, p.batch, p.heads, p.kv_heads, p.seq));
  for (const ProfileCurve& c : profile.collectives)
    for (const CurvePoint& p : c.table)
      ids.push_back(fmt::format("{} {} n{} r{} {} {:.0f}", name(c.op), c.dtype, c.layout.n, c.layout.ranks_per_node,
                                c.layout.all ? "all" : "one", p.bytes));
  return ids;
}

namespace {

/// Points of both; the fit of the one that has more.
void merge_attention(std::vector<ProfileAttention>& all, const ProfileAttention& old) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const ProfileAttention& a) {
    return a.backward == old.backward && a.head_dim == old.head_dim;
  });
  if (same == all.end()) {
    all.push_back(old);
    return;
  }
  const ProfileAttention rest = *same;
  if (old.grid.size() > rest.grid.size()) *same = old;
  const ProfileAttention& other = old.grid.size() > rest.grid.size() ? rest : old;
  add_missing(same->grid, other.grid,
              [](const AttentionPoint& p) { return std::tie(p.batch, p.heads, p.kv_heads, p.seq); });
}

}  // namespace

void merge_profile(HardwareProfile& profile, const HardwareProfile& earlier) {
  add_missing(profile.provenance, earlier.provenance, [](const ProfileSource& s) { return s.id; });
  if (profile.memory.context_gib <= 0) profile.memory = earlier.memory;
  if (!profile.hbm.copy.known()) profile.hbm = earlier.hbm;
  if (!profile.host_link.h2d.known()) profile.host_link = earlier.host_link;
  for (const ProfileGemm& old : earlier.gemm) {
    const auto same = std::find_if(profile.gemm.begin(), profile.gemm.end(), [&](const ProfileGemm& g) {
      return g.format == old.format && g.orientation == old.orientation;
    });
    if (same == profile.gemm.end()) {
      profile.gemm.push_back(old);
      continue;
    }
    add_missing(same->grid, old.grid, [](const GemmPoint& p) { return std::tie(p.m, p.n, p.k); });
    if (same->sustained_tflops <= 0) {
      same->sustained_tflops = old.sustained_tflops;
      same->burst_tflops = old.burst_tflops;
    }
  }
  for (const ProfileCurve& old : earlier.collectives) {
    const auto same = std::find_if(profile.collectives.begin(), profile.collectives.end(), [&](const ProfileCurve& c) {
      return c.op == old.op && c.dtype == old.dtype && c.layout == old.layout;
    });
    if (same == profile.collectives.end()) {
      profile.collectives.push_back(old);
      continue;
    }
    add_missing(same->table, old.table, [](const CurvePoint& p) { return p.bytes; });
    fit_curve(*same);
  }
  for (const ProfileAttention& old : earlier.attention) merge_attention(profile.attention, old);
  add_missing(profile.memory_bound, earlier.memory_bound, [](const ProfileKernel& k) { return k.op; });
  add_missing(profile.pairs, earlier.pairs, [](const ProfilePair& p) { return std::pair(p.from, p.to); });
  if (profile.tiers.empty()) profile.tiers = earlier.tiers;
  if (profile.overlap.empty()) profile.overlap = earlier.overlap;
  add_missing(profile.nccl_memory, earlier.nccl_memory, [](const ProfileNcclMemory& m) { return m.what; });
  if (profile.nccl_channels.collective <= 0) profile.nccl_channels = earlier.nccl_channels;
  add_missing(profile.conditions, earlier.conditions, [](const ProfileConditions& c) { return c.section; });
}

}  // namespace plan
