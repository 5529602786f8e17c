// A probe that is taken up where another ended: whatever of a profile the first one has, both together have all of it.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "full_profile.hpp"
#include "hwprobe/profile/assemble.hpp"
#include "hwprobe/session/pulse.hpp"

using namespace plan;

namespace {

/// Deals the elements of a list to one of two others, or to both.
template <class T>
void deal(std::mt19937& random, const std::vector<T>& all, std::vector<T>& one, std::vector<T>& other) {
  one.clear(), other.clear();
  for (const T& value : all) {
    const unsigned long to = random() % 3;
    if (to != 1) one.push_back(value);
    if (to != 0) other.push_back(value);
  }
}

std::multiset<std::string> points_of(const HardwareProfile& p) {
  const std::vector<std::string> ids = measured_points(p);
  return {ids.begin(), ids.end()};
}

std::set<std::string> names_of(const HardwareProfile& p) {
  const std::vector<std::string> ids = measured_points(p);
  return {ids.begin(), ids.end()};
}

template <class T>
bool same_elements(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
}

}  // namespace

TEST_CASE("the points of a profile are told each by its own name") {
  const HardwareProfile p = full_profile();
  const std::multiset<std::string> points = points_of(p);
  std::size_t wanted = 1;  // the memory's
  for (const ProfileGemm& g : p.gemm) wanted += g.grid.size() + 1;
  for (const ProfileAttention& a : p.attention) wanted += a.grid.size();
  for (const ProfileCurve& c : p.collectives) wanted += c.table.size();
  CHECK(points.size() == wanted);
  for (const char* id : {"memory ladder", "gemm bf16 nn 512x1024x2048", "attention bwd d64 b1 h8/8 s4096",
                         "all_gather fp32 n8 r8 one 512", "all_reduce bf16 n2 r1 all 536870912"})
    CHECK(points.count(id) == 1);
  CHECK(points.count("sustained nvfp4 8192x8192x8192") == 3);  // once for each orientation, whose rate it is
  HardwareProfile none = p;
  none.memory.context_gib = 0;
  for (ProfileGemm& g : none.gemm) g.sustained_tflops = 0;
  CHECK(points_of(none).size() == wanted - 1 - p.gemm.size());
}

TEST_CASE("a profile that is dealt to two probes comes back whole") {
  std::mt19937 random(8);
  const HardwareProfile whole = full_profile();
  for (int round = 0; round < 200; ++round) {
    HardwareProfile one = whole, other = whole;
    deal(random, whole.gemm, one.gemm, other.gemm);
    deal(random, whole.attention, one.attention, other.attention);
    deal(random, whole.collectives, one.collectives, other.collectives);
    deal(random, whole.memory_bound, one.memory_bound, other.memory_bound);
    deal(random, whole.pairs, one.pairs, other.pairs);
    deal(random, whole.nccl_memory, one.nccl_memory, other.nccl_memory);
    deal(random, whole.conditions, one.conditions, other.conditions);
    for (ProfileGemm& g : one.gemm)
      if (random() % 2 == 0) g.grid.pop_back();  // what both have keeps the earlier one's first points, or has none
    if (round % 2 == 0) one.memory = {};
    if (round % 3 == 0) one.hbm = {};
    if (round % 4 == 0) one.host_link = {}, one.tiers.clear();
    if (round % 5 == 0) one.overlap.clear(), one.nccl_channels = {}, one.provenance.clear();
    HardwareProfile merged = one;
    merge_profile(merged, other);
    CHECK(merged.memory == whole.memory);
    CHECK(merged.hbm == whole.hbm);
    CHECK(merged.host_link == whole.host_link);
    CHECK(merged.tiers == whole.tiers);
    CHECK(merged.overlap == whole.overlap);
    CHECK(merged.nccl_channels == whole.nccl_channels);
    CHECK(merged.provenance == whole.provenance);
    CHECK(merged.gemm.size() == whole.gemm.size());
    CHECK(same_elements(merged.attention, whole.attention));
    CHECK(same_elements(merged.memory_bound, whole.memory_bound));
    CHECK(same_elements(merged.pairs, whole.pairs));
    CHECK(same_elements(merged.nccl_memory, whole.nccl_memory));
    CHECK(same_elements(merged.conditions, whole.conditions));
    CHECK(merged.collectives.size() == whole.collectives.size());
    std::set<std::string> wanted = names_of(one), got = names_of(merged);
    for (const std::string& id : names_of(other)) wanted.insert(id);
    CHECK(got == wanted);
  }
}

TEST_CASE("what a probe measured itself stays, beside what the earlier one measured more") {
  HardwareProfile now = full_profile(), earlier = full_profile();
  for (ProfileGemm& g : earlier.gemm) g.sustained_tflops = 1, g.grid[0].us = 1, g.grid.push_back({7, 7, 7, 7, 0});
  for (ProfileAttention& a : earlier.attention) a.fmax_tflops = 1, a.grid[0].us = 1;
  for (ProfileCurve& c : earlier.collectives) c.table[0].us = 1, c.table.push_back({2048, 12, 0});
  for (ProfileKernel& k : earlier.memory_bound) k.gb_s = 1;
  for (ProfilePair& p : earlier.pairs) p.gb_s = 1;
  earlier.memory.usable_gib = earlier.hbm.copy.value = earlier.host_link.h2d.value = 1;
  earlier.attention[3].grid.push_back({2, 8, 8, 4096, 230, 0});
  now.gemm[0].sustained_tflops = 0;
  HardwareProfile merged = now;
  merge_profile(merged, earlier);
  CHECK(merged.memory == now.memory);
  CHECK(merged.hbm == now.hbm);
  CHECK(merged.host_link == now.host_link);
  CHECK(merged.pairs == now.pairs);
  CHECK(merged.memory_bound == now.memory_bound);
  for (std::size_t i = 0; i < now.gemm.size(); ++i) {
    CHECK(merged.gemm[i].grid[0] == now.gemm[i].grid[0]);
    CHECK(merged.gemm[i].grid.back() == earlier.gemm[i].grid.back());
    CHECK(merged.gemm[i].sustained_tflops == (i == 0 ? 1 : 610));
    CHECK(merged.gemm[i].burst_tflops == 700);
  }
  for (std::size_t i = 0; i < now.attention.size(); ++i) {  // the fit is of the one that has more points
    CHECK(merged.attention[i].grid.size() == (i == 3 ? 2 : 1));
    CHECK(merged.attention[i].fmax_tflops == (i == 3 ? 1 : now.attention[i].fmax_tflops));
  }
  for (std::size_t i = 0; i < now.collectives.size(); ++i) {
    CHECK(merged.collectives[i].table.size() == 4);
    CHECK(merged.collectives[i].busbw_gb_s > 0);  // of which a new curve is laid through all points
    for (const CurvePoint& p : now.collectives[i].table)
      CHECK(std::count(merged.collectives[i].table.begin(), merged.collectives[i].table.end(), p) == 1);
  }
}

TEST_CASE("while a GPU works it is looked at, again and again, and by its name alone") {
  PulseSampler sampler("GPU-00000003-0000-0000-0000-000000000000", PLAN_NVML_DOUBLE);
  PulseSampler stranger("GPU-another", PLAN_NVML_DOUBLE), without("GPU-00000003", "/nowhere/libnvidia-ml.so.1");
  std::vector<GpuPulse> looks;
  for (int tries = 0; looks.size() < 3 && tries < 500; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::vector<GpuPulse> more = sampler.take();
    CHECK(more.size() <= 2);  // each look is taken once
    looks.insert(looks.end(), more.begin(), more.end());
  }
  REQUIRE(looks.size() >= 3);
  for (const GpuPulse& look : looks) {
    CHECK(look.sm_mhz == 1755);
    CHECK(look.memory_mhz == 2619);
    CHECK(look.watts == 698);
    CHECK(look.reasons == 4);
  }
  CHECK(stranger.take().empty());
  CHECK(without.take().empty());
}
