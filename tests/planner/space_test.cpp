// The search's account of its space against a plain count.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "oracle/brute_search.hpp"
#include "oracle/random_layout.hpp"
#include "oracle/random_problem.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/least_memory.hpp"
#include "planner/search/least_traffic.hpp"
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

namespace {

/// A layout with the degrees, tensor ranks' sequence and order of one, and all else of another.
Layout with_degrees_of(const Layout& one, Layout other) {
  other.tp = one.tp, other.cp = one.cp, other.pp = one.pp, other.dp = one.dp, other.ep = one.ep, other.etp = one.etp;
  other.sequence_parallel = one.sequence_parallel, other.order = one.order;
  return other;
}

/// As a search meets them: with no list of chunks or stages, which it lays out itself.
Layout without_lists(Layout layout) {
  layout.chunk_layers.clear(), layout.stages.clear();
  return layout;
}

}  // namespace

TEST_CASE("no rule reads more than the search remembers its verdict by") {
  std::mt19937 random(20261205);
  int asked = 0;
  for (int i = 0; i < oracle::rounds(3000); ++i) {
    const Problem problem = oracle::widened(oracle::random_problem(random, 64), random);
    const Layout layout = without_lists(oracle::any_values(random));
    const Layout other = with_degrees_of(layout, without_lists(oracle::any_values(random)));
    Layout same_states = other, same_run = layout;
    same_states.zero = layout.zero, same_states.shard = layout.shard;
    same_run.cp_kind = other.cp_kind, same_run.cp_ulysses = other.cp_ulysses;
    for (const Rule& rule : rules()) {
      CAPTURE(std::string(rule.code));
      const bool holds = rule.holds(problem, layout);
      if (rule.level <= Level::Experts) CHECK(rule.holds(problem, other) == holds);
      if (rule.level == Level::Sharding) CHECK(rule.holds(problem, same_states) == holds);
      if (rule.level >= Level::Schedule) CHECK(rule.holds(problem, same_run) == holds);
      ++asked;
    }
  }
  CHECK(asked >= oracle::at_least(100'000));
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

TEST_CASE("the kind of context changes nothing of how a family may run and shard, which is counted once") {
  std::mt19937 random(41);
  int compared = 0;
  for (int i = 0; i < oracle::rounds(120); ++i) {
    Problem problem = oracle::widened(oracle::random_problem(random, 64), random);
    if (i % 3 != 0) problem.fixed = {};
    Tally outer;
    std::map<std::pair<Degrees, int>, std::pair<std::int64_t, std::vector<Rejected>>> known;
    for (const Family& family : enumerate_families(problem, outer)) {
      std::int64_t legal = 0;
      Tally tally;
      for (const Pipelining& run : enumerate_runs(problem, family.layout, tally))
        legal +=
            static_cast<std::int64_t>(enumerate_shardings(problem, run_of(problem, family.layout, run), tally).size());
      const std::pair key{degrees_of(family.layout), family.layout.micro_batch};
      const auto [place, first] = known.try_emplace(key, legal, tally.rows());
      if (first) continue;
      ++compared;
      CHECK(place->second.first == legal);
      const std::vector<Rejected>&before = place->second.second, now = tally.rows();
      CHECK(std::equal(before.begin(), before.end(), now.begin(), now.end(), [](const Rejected& a, const Rejected& b) {
        return a.reason == b.reason && a.count == b.count;
      }));
    }
  }
  CHECK(compared > oracle::at_least(200));
}

TEST_CASE("states of families with the same degrees are the same whatever else they differ in") {
  std::mt19937 random(42);
  int compared = 0;
  for (int i = 0; i < oracle::rounds(120); ++i) {
    Problem problem = oracle::widened(oracle::random_problem(random, 64), random);
    if (i % 3 != 0) problem.fixed = {};
    Tally tally;
    std::map<std::pair<Degrees, int>, std::vector<RealBytes>> known;
    for (const Family& family : enumerate_families(problem, tally)) {
      const Layout& layout = family.layout;
      const std::vector<Pipelining> runs = enumerate_runs(problem, layout, tally);
      if (runs.empty()) continue;
      const Layout run = run_of(problem, layout, runs[random() % runs.size()]);
      const MemoryModel memory(problem, run);
      std::vector<RealBytes> peaks;
      for (const Sharding& one : std::vector<Sharding>{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 2}})
        for (const bool both : {false, true})
          peaks.push_back(least_peak(least_states(problem, run, {one}, 1, both, memory), {}, {}, memory));
      const auto [place, first] = known.try_emplace({degrees_of(layout), batch_of_states(problem, layout)}, peaks);
      compared += !first;
      CHECK(place->second == peaks);
    }
  }
  CHECK(compared > oracle::at_least(200));
}
