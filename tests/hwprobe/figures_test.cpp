// What is compared of two profiles, and what one takes over from an earlier one, on a profile that has everything.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

#include "full_profile.hpp"
#include "hwprobe/profile/assemble.hpp"
#include "hwprobe/profile/compare.hpp"

using namespace plan;

namespace {

/// A figure of a profile: how it is called, in which unit, and where it is kept.
struct Figure {
  std::string what, unit;
  std::function<double&(HardwareProfile&)> of;
};

/// The first so many of them are kept as rates, the others as times.
constexpr std::ptrdiff_t kRates = 14;
const std::vector<Figure>& figures() {
  static const std::vector<Figure> kAll{
      {"memory usable", "GiB", [](HardwareProfile& p) -> double& { return p.memory.usable_gib; }},
      {"memory copy", "GB/s", [](HardwareProfile& p) -> double& { return p.hbm.copy.value; }},
      {"memory triad", "GB/s", [](HardwareProfile& p) -> double& { return p.hbm.triad.value; }},
      {"GEMM fp32 tn sustained", "TFLOP/s", [](HardwareProfile& p) -> double& { return p.gemm[0].sustained_tflops; }},
      {"GEMM fp16 nn sustained", "TFLOP/s", [](HardwareProfile& p) -> double& { return p.gemm[4].sustained_tflops; }},
      {"GEMM bf16 nt sustained", "TFLOP/s", [](HardwareProfile& p) -> double& { return p.gemm[8].sustained_tflops; }},
      {"attention fwd d128", "TFLOP/s", [](HardwareProfile& p) -> double& { return p.attention[1].fmax_tflops; }},
      {"attention bwd d64", "TFLOP/s", [](HardwareProfile& p) -> double& { return p.attention[2].fmax_tflops; }},
      {"adam", "GB/s", [](HardwareProfile& p) -> double& { return p.memory_bound[1].gb_s; }},
      {"host to device", "GB/s", [](HardwareProfile& p) -> double& { return p.host_link.h2d.value; }},
      {"device to host", "GB/s", [](HardwareProfile& p) -> double& { return p.host_link.d2h.value; }},
      {"GPU 0 to 2", "GB/s", [](HardwareProfile& p) -> double& { return p.pairs[1].gb_s; }},
      {"GPU 1 to 0", "GB/s", [](HardwareProfile& p) -> double& { return p.pairs[2].gb_s; }},
      {"tier network", "GB/s", [](HardwareProfile& p) -> double& { return p.tiers[1].measured_gb_s; }},
      {"GEMM bf16 tn 8kx8kx8k", "TFLOP/s", [](HardwareProfile& p) -> double& { return p.gemm[6].grid[1].us; }},
      {"all_gather n=8 512 B", "us", [](HardwareProfile& p) -> double& { return p.collectives[6].table[0].us; }},
      {"all_gather n=8 512 MiB", "GB/s", [](HardwareProfile& p) -> double& { return p.collectives[6].table[2].us; }},
      {"all_reduce 2x1 512 B", "us", [](HardwareProfile& p) -> double& { return p.collectives[2].table[0].us; }},
      {"all_reduce 2x1 512 MiB", "GB/s", [](HardwareProfile& p) -> double& { return p.collectives[2].table[2].us; }}};
  return kAll;
}

/// Those that moved.
std::vector<FigureChange> moved(const HardwareProfile& before, const HardwareProfile& now) {
  std::vector<FigureChange> changes = common_figures(before, now);
  std::erase_if(changes, [](const FigureChange& c) { return c.better == 0; });
  return changes;
}

/// The elements of a list, dealt to two lists at random; now and then to both.
template <class T>
void deal(const std::vector<T>& all, std::vector<T>& one, std::vector<T>& other, std::mt19937& random) {
  one.clear(), other.clear();
  for (const T& value : all) {
    const auto side = random() % 5;
    if (side != 0 && side != 1) one.push_back(value);
    if (side < 3) other.push_back(value);
  }
}

}  // namespace

TEST_CASE("every figure is compared with its own kind, by its name, as a rate or as a time") {
  const HardwareProfile whole = full_profile();
  const std::size_t count = common_figures(whole, whole).size();
  CHECK(moved(whole, whole).empty());
  for (const Figure& figure : figures()) {
    CAPTURE(figure.what);
    HardwareProfile other = whole;
    double& value = figure.of(other);
    value *= 2;
    const std::vector<FigureChange> forth = moved(whole, other), back = moved(other, whole);
    REQUIRE(forth.size() == 1);
    REQUIRE(back.size() == 1);
    CHECK(forth[0].what == figure.what);
    CHECK(forth[0].unit == figure.unit);
    CHECK(forth[0].beyond_noise);
    const bool slower = &figure - figures().data() >= kRates;  // twice the time
    CHECK(forth[0].better == doctest::Approx(slower ? -0.5 : 1));
    CHECK(back[0].better == doctest::Approx(slower ? 1 : -0.5));
    CHECK(forth[0].now / forth[0].before == doctest::Approx(figure.unit == "us" || !slower ? 2 : 0.5));
    const std::vector<FigureChange> sorted = compare_profiles(whole, other);
    CHECK((slower ? sorted.front() : sorted.back()).what == figure.what);
  }
  for (std::size_t i = 0; i < std::size_t{kRates}; ++i) {  // rates: one that is missing is compared with nothing
    CAPTURE(figures()[i].what);
    HardwareProfile other = whole;
    figures()[i].of(other) = 0;
    CHECK(common_figures(whole, other).size() == count - 1);
    CHECK(common_figures(other, whole).size() == count - 1);
  }
}

TEST_CASE("a change counts from three per cent on, and from both spreads together") {
  for (const double spread : {0.0, 0.01, 0.02, 0.05})
    for (const double more : {0.01, 0.02, 0.029, 0.031, 0.05, 0.09, 0.11}) {
      HardwareProfile before = full_profile(), now = before;
      before.hbm.copy.spread = now.hbm.copy.spread = spread;
      now.hbm.copy.value *= 1 + more;
      const std::vector<FigureChange> changes = moved(before, now);
      REQUIRE(changes.size() == 1);
      CHECK(changes[0].beyond_noise == (more > 0.03 && more > 2 * spread));
    }
}

TEST_CASE("GEMMs are compared at the largest shape that both profiles hold") {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    HardwareProfile a, b;
    double most = 0, wanted = 0;
    a.gemm = b.gemm = {{.format = "bf16"}};
    for (const double m : {512., 768., 4096.})
      for (const double k : {256., 1024.}) {
        const bool in_a = random() % 2 == 0, in_b = random() % 2 == 0;
        const double us = 10 + static_cast<double>(random() % 100);
        if (in_a) a.gemm[0].grid.push_back({m, 512, k, us});
        if (in_b) b.gemm[0].grid.push_back({m, 512, k, us * 3});
        if (in_a && in_b && m * k > most) most = m * k, wanted = 2 * m * 512 * k / us / 1e6;
      }
    std::shuffle(a.gemm[0].grid.begin(), a.gemm[0].grid.end(), random);
    const std::vector<FigureChange> changes = common_figures(a, b);
    REQUIRE(changes.size() == (most > 0 ? 1 : 0));
    if (most == 0) continue;
    CHECK(changes[0].before == doctest::Approx(wanted));
    CHECK(changes[0].now == doctest::Approx(wanted / 3));
  }
}

TEST_CASE("what is expected follows the data sheet's own numbers") {
  Cluster cluster;
  Gpu& gpu = cluster.gpu;
  gpu.memory = round_bytes(80 * kGiB);
  gpu.peak.fill(FlopsPerSecond(9.9e14));
  gpu.memory_bandwidth = BytesPerSecond(3.35e12);
  gpu.scale_up = BytesPerSecond(4.5e11);
  gpu.host_link = BytesPerSecond(6.4e10);
  cluster.tiers = {{.name = "nvlink", .size = 8, .bandwidth = gpu.scale_up},
                   {.name = "network", .size = 1 << 20, .bandwidth = BytesPerSecond(5e10)}};
  const HardwareProfile like = full_profile(), expected = expected_profile(like, cluster);
  CHECK(expected.memory.usable_gib == doctest::Approx(80));
  const auto faster = [&](const std::function<void(Cluster&)>& change) {
    Cluster other = cluster;
    change(other);
    std::set<std::string> names;
    for (const FigureChange& c : moved(expected, expected_profile(like, other))) {
      CHECK(c.better > 0);
      CHECK(c.better < 1.01);
      names.insert(c.what);
    }
    return names;
  };
  CHECK(faster([](Cluster& c) { c.gpu.host_link = 2 * c.gpu.host_link; }) ==
        std::set<std::string>{"host to device", "device to host"});
  const std::set<std::string> pairs = faster([](Cluster& c) { c.gpu.scale_up = 2 * c.gpu.scale_up; });
  for (const std::string pair : {"GPU 0 to 1", "GPU 0 to 2", "GPU 1 to 0"}) CHECK(pairs.count(pair) == 1);
  const std::set<std::string> memory = faster([](Cluster& c) { c.gpu.memory_bandwidth = 2 * c.gpu.memory_bandwidth; });
  for (const std::string what : {"memory copy", "memory triad", "rmsnorm", "adam"}) CHECK(memory.count(what) == 1);
  const std::array<std::pair<DType, std::set<std::string>>, 5> formats{{{DType::Fp32, {"fp32"}},
                                                                        {DType::Fp16, {"fp16"}},
                                                                        {DType::Bf16, {"bf16"}},
                                                                        {DType::Fp8, {"fp8", "mxfp8"}},
                                                                        {DType::Fp4, {"nvfp4"}}}};
  for (const auto& [dtype, words] : formats) {
    std::set<std::string> seen;
    for (const std::string& what : faster([&, type = dtype](Cluster& c) {
           FlopsPerSecond& peak = c.gpu.peak[static_cast<std::size_t>(type)];
           peak = 2 * peak;
         }))
      if (what.starts_with("GEMM ")) seen.insert(what.substr(5, what.find(' ', 5) - 5));
    CHECK(seen == words);
  }
  for (const FigureChange& c : common_figures(expected, like))  // the sheet promises no more than its own peaks
    if (c.unit == "GB/s" && c.what.starts_with("GPU")) CHECK(c.before <= gpu.scale_up.value / 1e9);
}

TEST_CASE("two parts of a profile make up the whole again, however it was parted") {
  const HardwareProfile whole = full_profile();
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    HardwareProfile one = whole, other = whole;
    deal(whole.gemm, one.gemm, other.gemm, random);
    deal(whole.attention, one.attention, other.attention, random);
    deal(whole.collectives, one.collectives, other.collectives, random);
    deal(whole.memory_bound, one.memory_bound, other.memory_bound, random);
    deal(whole.pairs, one.pairs, other.pairs, random);
    deal(whole.nccl_memory, one.nccl_memory, other.nccl_memory, random);
    deal(whole.conditions, one.conditions, other.conditions, random);
    for (std::size_t i = 0; i < one.gemm.size(); ++i)  // a table may be parted, too
      for (ProfileGemm& theirs : other.gemm)
        if (theirs.format == one.gemm[i].format && theirs.orientation == one.gemm[i].orientation) {
          deal(whole.gemm[0].grid, one.gemm[i].grid, theirs.grid, random);
          (random() % 2 == 0 ? one.gemm[i] : theirs).sustained_tflops = 0;
        }
    for (ProfileCurve& curve : one.collectives)
      for (ProfileCurve& theirs : other.collectives)
        if (theirs.op == curve.op && theirs.dtype == curve.dtype && theirs.layout == curve.layout)
          deal(whole.collectives[0].table, curve.table, theirs.table, random);
    (random() % 2 == 0 ? one : other).memory = {};
    (random() % 2 == 0 ? one : other).hbm = {};
    (random() % 2 == 0 ? one : other).host_link = {};
    (random() % 2 == 0 ? one : other).tiers.clear();
    (random() % 2 == 0 ? one : other).overlap.clear();
    (random() % 2 == 0 ? one : other).nccl_channels = {};
    merge_profile(one, other);
    CHECK(one.memory == whole.memory);
    CHECK(one.hbm == whole.hbm);
    CHECK(one.host_link == whole.host_link);
    CHECK(one.tiers == whole.tiers);
    CHECK(one.overlap == whole.overlap);
    CHECK(one.nccl_channels == whole.nccl_channels);
    std::vector<std::string> points = measured_points(one), wanted = measured_points(whole);
    std::sort(points.begin(), points.end());
    std::sort(wanted.begin(), wanted.end());
    CHECK(points == wanted);
    CHECK(one.memory_bound.size() == whole.memory_bound.size());
    CHECK(one.pairs.size() == whole.pairs.size());
    CHECK(one.nccl_memory.size() == whole.nccl_memory.size());
    CHECK(one.conditions.size() == whole.conditions.size());
    for (const ProfileGemm& g : one.gemm) CHECK(g.burst_tflops == 700);
  }
}

TEST_CASE("of two tables of attention the fit of the longer one stays") {
  for (const std::size_t ours : {1, 2, 3})
    for (const std::size_t theirs : {1, 2, 3}) {
      HardwareProfile one, other;
      one.attention = {{.fmax_tflops = 300}};
      other.attention = {{.fmax_tflops = 500}};
      for (std::size_t i = 0; i < ours; ++i) one.attention[0].grid.push_back({1, 8, 8, 1024.0 * double(i + 1), 10});
      for (std::size_t i = 0; i < theirs; ++i) other.attention[0].grid.push_back({1, 8, 8, 1024.0 * double(i + 1), 20});
      merge_profile(one, other);
      REQUIRE(one.attention.size() == 1);
      CHECK(one.attention[0].fmax_tflops == (theirs > ours ? 500 : 300));
      CHECK(one.attention[0].grid.size() == std::max(ours, theirs));
    }
}
