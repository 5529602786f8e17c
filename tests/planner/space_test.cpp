// The search's account of its space against a plain count.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>

#include "oracle/brute_search.hpp"
#include "oracle/random_problem.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/search.hpp"

using namespace plan;

namespace {

/// Layouts of the whole space, counted one by one without a look at any rule.
std::int64_t count_space(const Problem& problem) {
  std::int64_t all = 0;
  oracle::each_choice(problem, [&](const Layout& layout) {
    const std::size_t recomputes = enumerate_recomputes(problem, least_deepest(problem, layout)).size();
    all += static_cast<std::int64_t>(std::max<std::size_t>(1, recomputes));
  });
  return all;
}

}  // namespace

TEST_CASE("every layout of the space is found, pruned or rejected by a named rule") {
  std::mt19937 random(23);
  for (int i = 0; i < 12; ++i) {
    Problem problem = oracle::random_problem(random, 16);
    problem.fixed = {};
    const SearchStats stats = find_layouts(problem).stats;
    CHECK(stats.considered == count_space(problem));
  }
}

TEST_CASE("tensor ranks that each hold the whole sequence, which nobody searches, save next to nothing") {
  std::mt19937 random(29);
  int compared = 0;
  for (int i = 0; i < 150; ++i) {
    Problem problem = oracle::random_problem(random, 32);
    problem.fixed = {};
    const auto fastest = [&] {
      const std::vector<Candidate> best = find_layouts(problem).ranking.best();
      return best.empty() ? std::optional<Score>() : best.front().score;
    };
    const std::optional<Score> split = fastest();
    problem.fixed.sequence_parallel = false;
    const std::optional<Score> whole = fastest();
    if (!split || !whole || problem.objective == Objective::Memory) continue;
    ++compared;
    CHECK(whole->step_time >= 0.98 * split->step_time);
  }
  CHECK(compared > 20);
}
