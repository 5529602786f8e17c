// Ranks that are slow because they were made so: each of the others takes about the same time.
#include "cli/logs/slow_ranks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace plan;

TEST_CASE("ranks made slow are named, of two as of many, and no other is") {
  std::mt19937_64 random(20261127);
  std::uniform_real_distribution<double> noise(0.995, 1.005), scale(1e-6, 1e3);
  for (int round = 0; round < 500; ++round) {
    const std::size_t ranks = 1 + random() % 9;
    const std::size_t most = (ranks - 1) / 2;  // more would be what is usual
    const std::size_t made = ranks == 2 ? random() % 2 : most == 0 ? 0 : random() % (most + 1);
    const double usual = scale(random);
    std::vector<NamedTime> times;
    for (std::size_t i = 0; i < ranks; ++i)
      times.push_back({std::to_string(i), usual * noise(random) * (i < made ? 1.1 : 1)});
    std::shuffle(times.begin(), times.end(), random);
    std::set<std::string> named;
    for (const SlowRank& slow : slow_ranks(times)) {
      named.insert(slow.name);
      CHECK(slow.usual == doctest::Approx(usual).epsilon(0.006));
    }
    CAPTURE(ranks);
    CAPTURE(made);
    CHECK(named.size() == made);
    for (std::size_t i = 0; i < made; ++i) CHECK(named.count(std::to_string(i)) == 1);
  }
}

TEST_CASE("a rank alone has no others to be slower than") {
  CHECK(slow_ranks({}).empty());
  const std::vector<NamedTime> one = {{"a.log", 3}};
  CHECK(slow_ranks(one).empty());
}
