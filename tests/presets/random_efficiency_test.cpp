// Random measurements of a GPU are written and read back, onto the GPU that they are of and onto others.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "formulas/efficiency.hpp"
#include "presets/efficiency_reader.hpp"

namespace {
using namespace plan;
using doctest::Approx;

constexpr double kNear = 2e-4;  // rates and times are written with five digits

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  bool coin() { return engine_() % 2 == 0; }
  double between(double least, double most) {
    return least * std::pow(most / least, std::uniform_real_distribution<double>(0, 1)(engine_));
  }
  std::size_t up_to(std::size_t most) { return engine_() % (most + 1); }

 private:
  std::mt19937 engine_;
};

std::vector<double> axis(Dice& dice) {
  std::vector<double> all{128};
  for (std::size_t i = 0, more = dice.up_to(3); i < more; ++i) all.push_back(all.back() * (dice.coin() ? 2 : 4));
  return all;
}

Gpu sheet(Dice& dice) {
  Gpu gpu;
  gpu.name = gpu.efficiency = "measured-gpu";
  for (FlopsPerSecond& peak : gpu.peak) peak = FlopsPerSecond(std::round(dice.between(100, 9000)) * 1e12);
  gpu.memory_bandwidth = BytesPerSecond(std::round(dice.between(500, 9000)) * 1e9);
  gpu.scale_up = BytesPerSecond(std::round(dice.between(50, 900)) * 1e9);
  return gpu;
}

void measure_gemms(Gpu& gpu, Dice& dice) {
  for (auto& tables : gpu.gemm)
    for (GemmTable& table : tables) {
      if (dice.coin()) continue;
      table.fit = {Seconds(dice.between(1e-6, 1e-5)), FlopsPerSecond(dice.between(1e14, 4e15)),
                   BytesPerSecond(dice.between(1e11, 4e12))};
      if (dice.coin()) continue;
      const std::vector<double> m = axis(dice), n = axis(dice), k = axis(dice);
      std::vector<double> rates(m.size() * n.size() * k.size());
      for (double& rate : rates) rate = dice.between(1e13, 3e15);
      table.grid = make_gemm_grid(m, n, k, rates);
    }
  if (dice.coin())
    for (double& share : gpu.sustained) share = 0.5 + 0.125 * static_cast<double>(dice.up_to(5));
  if (dice.coin())
    for (auto& ratios : gpu.orientation_ratio)
      for (std::size_t o = 1; o < ratios.size(); ++o) ratios[o] = 0.5 + 0.125 * static_cast<double>(dice.up_to(5));
}

Gpu measured(Dice& dice) {
  Gpu gpu = sheet(dice);
  measure_gemms(gpu, dice);
  if (dice.coin())
    for (GroupedGemmFit& fit : gpu.grouped_gemm)
      fit = {Seconds(dice.between(1e-7, 1e-5)), FlopsPerSecond(dice.between(1e14, 2e15)),
             BytesPerSecond(dice.between(1e11, 4e12))};
  if (dice.coin())
    for (AttentionFit& fit : gpu.attention) {
      fit.t0 = Seconds(dice.between(1e-6, 1e-5)), fit.rate = FlopsPerSecond(dice.between(1e14, 2e15));
      fit.s0 = 100.0 * static_cast<double>(dice.up_to(9)), fit.b0 = static_cast<double>(dice.up_to(30));
      fit.d0 = static_cast<double>(dice.up_to(64));
    }
  const std::vector<float> sizes{7, 11, 15, 19};  // logarithms
  for (std::size_t i = 0, curves = dice.up_to(4); i < curves; ++i) {
    CollectiveFit fit{.op = static_cast<Collective>(dice.up_to(3)), .ranks = 2 << dice.up_to(4)};
    fit.alpha = Seconds(dice.between(1e-6, 1e-4)), fit.busbw = BytesPerSecond(dice.between(1e10, 9e11));
    fit.p = 0.25 + 0.25 * static_cast<double>(dice.up_to(4));
    if (dice.coin()) {
      fit.log_bytes = sizes;
      for (std::size_t s = 0; s < sizes.size(); ++s)
        fit.log_ratio.push_back(static_cast<float>(dice.between(1, 3) - 2));
    }
    gpu.collectives.push_back(fit);
  }
  return gpu;
}

/// `a` is `b`, with rates and bandwidths so many times as large.
struct Times {
  std::array<double, kDTypes> peak{1, 1, 1, 1, 1};
  double half = 1, memory = 1, link = 1;
};

void same_gemms(const Gpu& a, const Gpu& b, const Times& times) {
  for (std::size_t d = 0; d < kDTypes; ++d)
    for (std::size_t o = 0; o < kOrientations; ++o) {
      const GemmTable &x = a.gemm[d][o], &y = b.gemm[d][o];
      CHECK(x.fit.t0.value == Approx(y.fit.t0.value).epsilon(kNear));
      CHECK(x.fit.rate.value == Approx(times.peak[d] * y.fit.rate.value).epsilon(kNear));
      CHECK(x.fit.bandwidth.value == Approx(times.memory * y.fit.bandwidth.value).epsilon(kNear));
      REQUIRE(x.grid.log_rate.size() == y.grid.log_rate.size());
      CHECK(x.grid.log_m.size() == y.grid.log_m.size());
      CHECK(x.grid.log_n.size() == y.grid.log_n.size());
      for (std::size_t i = 0; i < x.grid.log_rate.size(); ++i)
        CHECK(std::abs(x.grid.log_rate[i] - y.grid.log_rate[i] - std::log(times.peak[d])) < kNear);
      for (std::size_t i = 0; i < x.grid.log_k.size(); ++i) CHECK(std::abs(x.grid.log_k[i] - y.grid.log_k[i]) < kNear);
      CHECK(a.orientation_ratio[d][o] == b.orientation_ratio[d][o]);
      CHECK(a.sustained[d] == b.sustained[d]);
    }
}

void same(const Gpu& a, const Gpu& b, const Times& times) {
  same_gemms(a, b, times);
  for (std::size_t o = 0; o < kOrientations; ++o) {
    CHECK(a.grouped_gemm[o].per_expert.value == Approx(b.grouped_gemm[o].per_expert.value).epsilon(kNear));
    CHECK(a.grouped_gemm[o].rate.value == Approx(times.half * b.grouped_gemm[o].rate.value).epsilon(kNear));
    CHECK(a.grouped_gemm[o].bandwidth.value == Approx(times.memory * b.grouped_gemm[o].bandwidth.value).epsilon(kNear));
  }
  for (std::size_t pass = 0; pass < 2; ++pass) {
    const AttentionFit &x = a.attention[pass], &y = b.attention[pass];
    CHECK(x.t0.value == Approx(y.t0.value).epsilon(kNear));
    CHECK(x.rate.value == Approx(times.half * y.rate.value).epsilon(kNear));
    CHECK(std::vector<double>{x.s0, x.b0, x.d0} == std::vector<double>{y.s0, y.b0, y.d0});
  }
  REQUIRE(a.collectives.size() == b.collectives.size());
  for (std::size_t i = 0; i < a.collectives.size(); ++i) {
    const CollectiveFit &x = a.collectives[i], &y = b.collectives[i];
    CHECK(x.op == y.op);
    CHECK(x.ranks == y.ranks);
    CHECK(x.p == y.p);
    CHECK(x.alpha.value == Approx(y.alpha.value).epsilon(kNear));
    CHECK(x.busbw.value == Approx(times.link * y.busbw.value).epsilon(kNear));
    REQUIRE(x.log_bytes.size() == y.log_bytes.size());
    for (std::size_t s = 0; s < x.log_bytes.size(); ++s) {
      CHECK(std::abs(x.log_bytes[s] - y.log_bytes[s]) < kNear);
      CHECK(std::abs(x.log_ratio[s] - y.log_ratio[s]) < 2 * kNear);
    }
  }
}

std::string written(const Gpu& gpu) {
  Lines out("");
  write_efficiency_fields(out, 0, gpu, "a test");
  return out.text();
}

}  // namespace

TEST_CASE("random measurements of a GPU are read back as they were written, and scale with another one's data sheet") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    const Gpu gpu = measured(dice);
    const std::string text = written(gpu);
    CAPTURE(text);
    Gpu own;
    own.efficiency = gpu.efficiency, own.peak = gpu.peak;
    own.memory_bandwidth = gpu.memory_bandwidth, own.scale_up = gpu.scale_up;
    Gpu other = own;
    other.efficiency = "another-gpu";
    const Result<void> read = read_efficiency(text, "e.yaml", own);
    if (!read) CAPTURE(read.error()[0].message);
    REQUIRE(read);
    same(own, gpu, {});
    CHECK(has_efficiency(own) == has_efficiency(gpu));
    Times times{.peak = {2, 0.5, 4, 1.5, 3}, .memory = 1.25, .link = 0.75};
    times.half = times.peak[static_cast<std::size_t>(DType::Bf16)];
    for (std::size_t d = 0; d < kDTypes; ++d) other.peak[d] = other.peak[d] * times.peak[d];
    other.memory_bandwidth = other.memory_bandwidth * times.memory, other.scale_up = other.scale_up * times.link;
    REQUIRE(read_efficiency(text, "e.yaml", other));
    same(other, gpu, times);
    for (const CollectiveFit& fit : own.collectives) CHECK(fit.provenance == Provenance::Imported);
    for (const CollectiveFit& fit : other.collectives) CHECK(fit.provenance == Provenance::Inherited);
    if (gpu.attention[0].rate.value > 0) {
      CHECK(own.attention[0].provenance == Provenance::Fitted);
      CHECK(other.attention[0].provenance == Provenance::Inherited);
    }
  }
}

TEST_CASE("what a GPU did not measure itself is taken from another one, part by part") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Dice dice(1000 + seed);
    const Gpu mine = measured(dice), other = measured(dice);
    Gpu filled = mine;
    fill_efficiency(filled, other);
    bool products = false;
    for (const auto& tables : mine.gemm)
      for (const GemmTable& table : tables) products = products || table.fit.rate.value > 0;
    same_gemms(filled, products ? mine : other, {});
    const bool grouped = mine.grouped_gemm[0].rate.value > 0, attention = mine.attention[0].rate.value > 0;
    CHECK(filled.grouped_gemm[2].rate == (grouped ? mine : other).grouped_gemm[2].rate);
    CHECK(filled.attention[1].rate == (attention ? mine : other).attention[1].rate);
    CHECK(filled.collectives.size() == (mine.collectives.empty() ? other : mine).collectives.size());
  }
}
