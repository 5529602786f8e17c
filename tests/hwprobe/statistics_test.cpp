#include "hwprobe/statistics.hpp"

#include <doctest/doctest.h>

#include <random>

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
  CHECK(summarise({}).count == 0);
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
