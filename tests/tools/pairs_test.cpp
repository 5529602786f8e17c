// The fit of paired spreads against pairs drawn with known ones.
#include "tests/tools/pairs.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace plan::fit;

TEST_CASE("both parts of a paired spread are found again in pairs drawn from them") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> share(0, 1);
  struct Truth {
    double same, different;
  };
  for (const Truth& truth : {Truth{0.03, 0.2}, Truth{0.08, 0.05}, Truth{0.05, 0.0}}) {
    std::vector<Pair> pairs;
    for (int i = 0; i < 6000; ++i) {
      const double moved = share(random);
      pairs.push_back(
          {i % 10 == 0 ? "small" : "large", normal(random) * std::hypot(truth.same, truth.different * moved), moved});
    }
    const PairedFit found = paired_fit(pairs);
    CHECK(found.same == doctest::Approx(truth.same).epsilon(0.1));
    CHECK(std::abs(found.different - truth.different) < 0.03);
    CHECK(found.suites == 2);
    CHECK(found.pairs == 6000);
  }
}

TEST_CASE("one pair far off moves a paired spread by little, and none leaves nothing to fit") {
  std::vector<Pair> pairs;
  for (int i = 0; i < 200; ++i) pairs.push_back({"suite", i % 2 == 0 ? 0.05 : -0.05, i / 200.0});
  const double before = paired_fit(pairs).same;
  pairs.push_back({"suite", 3.0, 0.5});
  CHECK(paired_fit(pairs).same < 1.2 * before);
  CHECK(paired_fit({}).pairs == 0);
}
