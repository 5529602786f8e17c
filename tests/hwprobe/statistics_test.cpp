#include "hwprobe/fits/statistics.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "hwprobe/session/pulse.hpp"

using namespace plan;

TEST_CASE("median and spread of a known distribution") {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(100, 2);
  std::vector<double> samples(20000);
  for (double& x : samples) x = normal(random);
  const Summary s = summarise(samples);
  CHECK(s.median == doctest::Approx(100).epsilon(0.001));
  CHECK(s.spread == doctest::Approx(1.645 * 0.02).epsilon(0.03));  // half of the middle 90 % of a normal distribution
  CHECK(s.error == doctest::Approx(1.96 * 1.2533 * 0.02 / std::sqrt(20000.0)).epsilon(0.05));
  CHECK(summarise(std::vector<double>{}).count == 0);
}

TEST_CASE("quantiles lie between the samples, the ends included") {
  CHECK(sample_quantile({3, 1, 2}, 0) == 1);
  CHECK(sample_quantile({3, 1, 2}, 0.25) == doctest::Approx(1.5));
  CHECK(sample_quantile({3, 1, 2}, 0.5) == 2);
  CHECK(sample_quantile({3, 1, 2}, 1) == 3);
  CHECK(sample_quantile({3, 1, 2}, 2) == 3);
  CHECK(sample_quantile({7}, 1) == 7);
  CHECK(sample_quantile({}, 1) == 0);
}

TEST_CASE("one wild sample moves neither median nor spread") {
  std::vector<double> samples(40, 5.0);
  samples[7] = 500;
  CHECK(summarise(samples).median == 5);
  CHECK(summarise(samples).spread == 0);
}

TEST_CASE("an operation of several ranks takes as long as its slowest rank") {
  const std::vector<std::vector<double>> ranks{{1, 2, 3}, {2, 1, 1}, {}, {1, 1, 4, 9}};
  CHECK(slowest_rank(ranks) == std::vector<double>{2, 2, 4});
  // What one rank has no sample of was measured by some alone.
  CHECK(slowest_rank({{{1, 2, 3}, {2, 1}}}) == std::vector<double>{2, 2});
}

TEST_CASE("two heaps are seen, one wide heap is not") {
  std::vector<double> two, one;
  for (int i = 0; i < 20; ++i) {
    two.push_back(i % 2 == 0 ? 1.0 + 0.001 * i : 1.5 + 0.001 * i);
    one.push_back(1.0 + 0.02 * i);
  }
  CHECK(bimodal(two));
  CHECK_FALSE(bimodal(one));
  CHECK_FALSE(bimodal({1, 2}));
}

TEST_CASE("two heaps count when both hold a fifth and their gap outweighs their widths and a twentieth") {
  std::mt19937 random(3);
  for (int round = 0; round < 400; ++round) {
    const std::size_t few = 1 + random() % 12, many = few + random() % 20;
    const double scale = std::exp2(static_cast<double>(random() % 20) - 10);
    const double width = 0.001 * static_cast<double>(random() % 200),
                 gap = 0.001 * static_cast<double>(1 + random() % 400);
    std::vector<double> samples;
    for (std::size_t i = 0; i < few; ++i)
      samples.push_back(1 + (few > 1 ? width * static_cast<double>(i) / static_cast<double>(few - 1) : 0));
    const double begin = (few > 1 ? 1 + width : 1) + gap;
    for (std::size_t i = 0; i < many; ++i) samples.push_back(begin);
    const double widest = few > 1 ? width / static_cast<double>(few - 1) : 0;  // inside the wide heap
    const double room = few > 1 ? width : 0;
    if (std::abs(gap - widest) < 1e-9 || std::abs(gap - 2 * room) < 1e-9 || std::abs(gap - 0.05) < 1e-9) continue;
    const bool wanted = few + many >= 8 && 5 * few >= few + many && gap > 2 * room && gap > 0.05;
    for (double& x : samples) x *= scale;
    std::vector<double> turned;  // the narrow heap below: as far apart
    for (const double x : samples) turned.push_back(samples.front() + samples.back() - x);
    std::shuffle(samples.begin(), samples.end(), random);
    std::shuffle(turned.begin(), turned.end(), random);
    CAPTURE(few);
    CAPTURE(many);
    CAPTURE(width);
    CAPTURE(gap);
    CHECK(bimodal(samples) == wanted);
    CHECK(bimodal(turned) == wanted);
  }
}

TEST_CASE("a summary scales with its samples, and its quantiles are among them") {
  std::mt19937 random(9);
  for (std::size_t count = 1; count < 40; ++count) {
    std::vector<double> samples(count), longer(count);
    for (std::size_t i = 0; i < count; ++i)
      longer[i] = 3 * (samples[i] = 1 + static_cast<double>(random() % 1000) / 100);
    const Summary s = summarise(samples), l = summarise(longer);
    CHECK(s.count == static_cast<int>(count));
    CHECK(s.least == *std::min_element(samples.begin(), samples.end()));
    CHECK(s.least <= s.median);
    CHECK(s.median <= s.p90);
    CHECK(s.p90 <= *std::max_element(samples.begin(), samples.end()));
    CHECK(std::count_if(samples.begin(), samples.end(), [&](double x) { return x <= s.p90; }) >=
          static_cast<std::ptrdiff_t>(0.9 * static_cast<double>(count)));
    CHECK(l.median == doctest::Approx(3 * s.median));
    CHECK(l.spread == doctest::Approx(s.spread));
    CHECK(l.error == doctest::Approx(s.error));
  }
  CHECK(summarise(std::vector<double>{0, 0, 0}).spread == 0);
}

TEST_CASE("clocks and power are the medians of those that a driver told, heat and reasons the worst") {
  const PulseSummary s =
      summarise(std::vector<GpuPulse>{{.sm_mhz = 0.5, .watts = 300, .celsius = 50, .reasons = 1},
                                      {.memory_mhz = 2600, .watts = 100, .celsius = 71, .reasons = 4},
                                      {.watts = 200, .celsius = 60, .reasons = 4}});
  CHECK(s.samples == 3);
  CHECK(s.sm_mhz == 0.5);
  CHECK(s.memory_mhz == 2600);
  CHECK(s.watts == 200);
  CHECK(s.celsius == 71);
  CHECK(s.reasons == 5);
  const PulseSummary none = summarise(std::vector<GpuPulse>{});
  CHECK(none.samples == 0);
  CHECK(none.sm_mhz == 0);
  CHECK(none.watts == 0);
}
