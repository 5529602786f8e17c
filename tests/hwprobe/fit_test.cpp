#include "hwprobe/fits/fit.hpp"
#include "formulas/traced.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace {
using namespace plan;
}

TEST_CASE("median and quality") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
  CHECK(median({}) == 0);
  const std::array<double, 4> predicted{1.1, 0.9, 1.0, 2.0}, measured{1, 1, 1, 1};
  const FitQuality q = fit_quality(predicted, measured);
  CHECK(q.count == 4);
  CHECK(q.median == doctest::Approx(0.1));
  CHECK(q.max == doctest::Approx(1));
  CHECK(q.bias == doctest::Approx(0.05));
  CHECK(fit_quality({}, {}).count == 0);
}

TEST_CASE("a collective curve gives back the law that made it") {
  for (const auto& [alpha, busbw, p] :
       {std::array<double, 3>{15.9e-6, 462e9, 0.62}, {80e-6, 95e9, 0.8}, {9e-6, 20e9, 1}}) {
    std::vector<CollectiveSample> samples;
    for (double bytes = 512; bytes < 1e9; bytes *= 3)
      samples.push_back({bytes, soft_sum(alpha, bytes * 2 * 7 / 8 / busbw, p)});
    const CollectiveFit fit = fit_collective(Collective::AllReduce, 8, samples);
    CHECK(fit.alpha.value == doctest::Approx(alpha).epsilon(1e-3));
    CHECK(fit.busbw.value == doctest::Approx(busbw).epsilon(1e-3));
    CHECK(fit.p == doctest::Approx(p).epsilon(1e-3));
    samples[4].seconds *= 10;  // one wild point
    CHECK(fit_collective(Collective::AllReduce, 8, samples).busbw.value == doctest::Approx(busbw).epsilon(0.1));
  }
}

TEST_CASE("few sizes keep p at 0.62") {
  std::vector<CollectiveSample> samples;
  for (double bytes = 512; bytes < 1e9; bytes *= 30) samples.push_back({bytes, soft_sum(1e-5, bytes / 2 / 100e9, 1)});
  CHECK(samples.size() < 8);
  CHECK(fit_collective(Collective::AllGather, 2, samples).p == 0.62);
  CHECK(fit_collective(Collective::AllGather, 2, {}).busbw.value == 0);
}

TEST_CASE("rooflines and attention laws are recovered") {
  const GemmFit truth{.t0 = Seconds(2.8e-6), .rate = FlopsPerSecond(765e12), .bandwidth = BytesPerSecond(2.2e12)};
  std::vector<GemmSample> gemms;
  for (const double m : {64., 512., 4096.})
    for (const double k : {256., 1024., 8192.}) {
      const double flops = 2 * m * m * k, bytes = 2 * (2 * m * k + m * m);
      gemms.push_back({flops, bytes, roofline_time(truth, Flops(flops), RealBytes(bytes)).value});
    }
  GemmFit start = truth;
  start.rate = FlopsPerSecond(1e14);
  start.bandwidth = BytesPerSecond(1e12);
  const GemmFit fit = fit_gemm(gemms, start);
  CHECK(fit.rate.value == doctest::Approx(765e12).epsilon(1e-3));
  CHECK(fit.bandwidth.value == doctest::Approx(2.2e12).epsilon(1e-3));

  const AttentionFit law{.t0 = Seconds(5e-6), .rate = FlopsPerSecond(574e12), .s0 = 1176, .b0 = 16.4, .d0 = 33};
  for (const bool backward : {false, true}) {
    std::vector<AttentionSample> kernels;
    for (const double seq : {1024., 4096., 16384.})
      for (const double heads : {4., 16., 64.}) {
        const AttentionWork work{1, seq, seq / 2, heads, 128, 128};
        kernels.push_back({work, attention_time(law, work, backward).value});
      }
    AttentionFit guess = law;
    guess.rate = FlopsPerSecond(2e14);
    guess.s0 = 500;
    const AttentionFit found = fit_attention(kernels, guess, backward);
    CHECK(found.rate.value == doctest::Approx(574e12).epsilon(1e-3));
    CHECK(found.s0 == doctest::Approx(1176).epsilon(1e-2));
    CHECK(found.b0 == doctest::Approx(16.4).epsilon(1e-2));
  }
}
