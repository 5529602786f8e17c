// The search against brute force: same optimum, same runners-up, same front, on any number of threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>

#include "oracle/brute_search.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/estimate/draws.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/memory_front.hpp"
#include "planner/search/plainest.hpp"
#include "planner/search/plainness.hpp"
#include "planner/search/search.hpp"

using namespace plan;

namespace {

/// Those that a wanted framework runs.
std::vector<Candidate> running(const std::vector<Candidate>& all) {
  std::vector<Candidate> some;
  for (const Candidate& candidate : all)
    if (candidate.runs_on != 0) some.push_back(candidate);
  return some;
}

Ranking rank(const Problem& problem, const std::vector<Candidate>& all) {
  std::vector<Candidate> sorted = running(all);
  std::sort(sorted.begin(), sorted.end(),
            [&](const Candidate& a, const Candidate& b) { return better(problem.objective, a, b); });
  Ranking ranking(problem.objective, problem.top);
  for (const Candidate& candidate : sorted) ranking.offer(candidate);
  return ranking;
}

/// Nothing in `all` is strictly better than a member, and each candidate is matched or beaten by one.
void check_front(const std::vector<Candidate>& front, const std::vector<Candidate>& all) {
  for (const Candidate& candidate : all) {
    const bool covered = std::any_of(front.begin(), front.end(), [&](const Candidate& member) {
      return member.score.step_time <= candidate.score.step_time && member.score.peak <= candidate.score.peak;
    });
    REQUIRE(covered);
  }
  for (const Candidate& member : front)
    REQUIRE(std::none_of(all.begin(), all.end(), [&](const Candidate& other) {
      return other.score.step_time <= member.score.step_time && other.score.peak <= member.score.peak &&
             (other.score.step_time < member.score.step_time || other.score.peak < member.score.peak);
    }));
}

void check_same(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].score.step_time == b[i].score.step_time);
    CHECK(a[i].score.peak == b[i].score.peak);
    CHECK(a[i].layout == b[i].layout);
    CHECK(int{a[i].switched} == int{b[i].switched});
  }
}

/// Equal stages of equal chunks, embedding and head counted as a layer each or not.
bool equal_parts(const Problem& problem, const Layout& l) {
  const int depth = problem.model.depth(), chunks = l.pp * l.vp;
  return l.pp == 1 || depth % chunks == 0 || (depth + 2) % chunks == 0;
}

/// Has `b` half the stages of `a` or fewer, no worse cut, and reaches no further with any group?
bool shallower(const Problem& problem, const Layout& b, const Layout& a) {
  const int domain = problem.cluster.scale_up_size();
  const auto reach = [&](int ranks) { return (ranks + domain - 1) / domain; };
  const bool rebuilds = b.recompute.kind == RecomputeKind::Full && a.recompute.kind != RecomputeKind::Full;
  const bool cut = b.cp > 1 && a.cp == 1 && problem.training.seq < 8192;
  return !rebuilds && !cut && 2 * b.pp <= a.pp && equal_parts(problem, b) && b.order == AxisOrder::PipelineOutermost &&
         reach(b.tp * b.cp) <= reach(a.tp * a.cp) && reach(b.etp * b.ep) <= reach(a.etp * a.ep);
}

using Allowed = std::function<bool(const Candidate&)>;

/// With as many layers on every chunk, the ends counted as a layer each or not, if that is allowed and has room.
Candidate laid(const Problem& asked, Candidate candidate, const Allowed& allowed, bool at_risk) {
  const Problem problem = oracle::switched_by_hand(asked, candidate.switched);
  const int depth = problem.model.depth(), chunks = candidate.layout.pp * candidate.layout.vp;
  if (candidate.layout.pp == 1 || problem.fixed.chunk_layers) return candidate;
  candidate.by_hand = true;
  Candidate equal = candidate;
  equal.by_hand = false;
  std::vector<int>& layers = equal.layout.chunk_layers;
  if (depth % chunks == 0) {
    layers.assign(static_cast<std::size_t>(chunks), depth / chunks);
  } else if ((depth + 2) % chunks == 0) {
    layers.assign(static_cast<std::size_t>(chunks), (depth + 2) / chunks);
    --layers.front(), --layers.back();
  } else {
    return candidate;
  }
  if (estimate(problem, candidate.layout).layout.chunk_layers == layers) {
    candidate.by_hand = false;
    return candidate;
  }
  if (broken_rule(problem, equal.layout) >= 0) return candidate;
  const CostModel costs(problem, split_of(equal.layout));
  Evaluator evaluator(problem, costs, equal.layout);
  const MemoryModel memory(problem, equal.layout);
  evaluator.recompute(equal.layout.recompute);
  equal.score = {evaluator.step_terms(equal.layout, memory).total(), evaluator.peak_memory(equal.layout, memory)};
  if (evaluator.host_memory(equal.layout, memory) > usable_host(problem, at_risk)) return candidate;
  return equal.score.peak <= usable_memory(problem, at_risk) && allowed(equal) ? equal : candidate;
}

/// At most 3 % slower than the fastest of those that are near, and within 2 % of the fastest of a draw in a twentieth
/// of all draws.
Allowed allowed_beside(const Problem& problem, const std::vector<Candidate>& near) {
  std::vector<Terms> terms;
  const auto terms_of_one = [problem](const Candidate& c) {
    return estimate(oracle::switched_by_hand(problem, c.switched), c.layout).terms;
  };
  for (const Candidate& candidate : near) terms.push_back(terms_of_one(candidate));
  return [terms_of_one, draws = Draws(terms), fastest = near.front().score.step_time](const Candidate& candidate) {
    if (candidate.score.step_time <= fastest) return true;
    return candidate.score.step_time <= 1.03 * fastest && draws.within(terms_of_one(candidate), 0.02) >= 0.05;
  };
}

/// The plainest of those that may be as good as the fastest; those are sorted.
std::optional<Candidate> plainest_by_hand(const Problem& problem, const std::vector<Candidate>& good,
                                          const Allowed& allowed, bool at_risk) {
  const auto counts = [&](const Candidate& candidate) { return plainness(problem, candidate).counts; };
  std::optional<Candidate> plainest;
  for (const Candidate& candidate : good) {
    if (plainest && counts(candidate) > counts(*plainest)) break;  // laid by hand it is no plainer
    const Candidate one = laid(problem, candidate, allowed, at_risk);
    if ((!plainest || plainer(problem, one, *plainest)) && allowed(one)) plainest = one;
  }
  return plainest;
}

/// The choice by its definition: of all that run and may be as good as the fastest that does, the plainest.
void check_choice(const Problem& problem, const SearchResult& found, const std::vector<Candidate>& all) {
  const std::vector<Candidate> some = running(all);
  if (some.empty()) {
    CHECK_FALSE(found.recommended);
    return;
  }
  const auto faster = [&](const Candidate& a, const Candidate& b) { return better(problem.objective, a, b); };
  check_same({found.ranking.best().front()}, {*std::min_element(some.begin(), some.end(), faster)});
  check_same(found.paper.best(), {*std::min_element(all.begin(), all.end(), faster)});
  REQUIRE(found.recommended);
  std::vector<Candidate> good, near;
  const Seconds fastest = found.ranking.best().front().score.step_time;
  for (const Candidate& candidate : some) {
    if (candidate.score.step_time <= 1.03 * fastest) good.push_back(candidate);
    if (candidate.score.step_time <= 1.05 * fastest) near.push_back(candidate);
  }
  if (problem.objective == Objective::Memory) return check_same({*found.recommended}, {found.ranking.best().front()});
  const Allowed allowed = allowed_beside(problem, found.near);
  std::sort(good.begin(), good.end(), [&](const Candidate& a, const Candidate& b) { return plainer(problem, a, b); });
  check_same({*found.recommended}, {*plainest_by_hand(problem, good, allowed, found.at_risk)});
  for (const double share : {1.01, 1.0}) {  // nothing takes longer than that
    const Allowed within = [&](const Candidate& c) { return c.score.step_time <= share * fastest && allowed(c); };
    std::vector<Candidate> sooner = good;
    std::erase_if(sooner, [&](const Candidate& c) { return c.score.step_time > share * fastest; });
    check_same({*plainest(found, share * fastest)}, {*plainest_by_hand(problem, sooner, within, found.at_risk)});
  }
  CHECK(found.recommended->runs_on != 0);
  CHECK(std::none_of(good.begin(), good.end(), [&](const Candidate& other) {
    if (other.switched != found.recommended->switched) return false;
    if (!shallower(problem, other.layout, found.recommended->layout)) return false;
    const Candidate one = laid(problem, other, allowed, found.at_risk);
    return allowed(one) && (found.recommended->by_hand || !one.by_hand);
  }));
  std::sort(near.begin(), near.end(), faster);
  std::vector<Candidate> apart;
  for (const Candidate& candidate : near)
    if (apart.size() < 256 && std::none_of(apart.begin(), apart.end(), [&](const Candidate& c) {
          return same_degrees(c.layout, candidate.layout);
        }))
      apart.push_back(candidate);
  check_same(found.near, apart);
}

/// What these frameworks cannot fix: leaves the axes that would empty most of the problems.
void leave_to_framework(Problem& problem) {
  problem.training.stack = framework_row(problem.framework).stack;
  problem.fixed.recompute.reset(), problem.fixed.schedule.reset(), problem.fixed.cp_kind.reset();
  if (problem.fixed.zero == 1) problem.fixed.zero = 3;
}

}  // namespace

TEST_CASE("search finds what brute force finds") {
  std::mt19937 random(20260101);
  int solved = 0, moe = 0, infeasible = 0;
  for (int i = 0; i < oracle::rounds(330); ++i) {
    Problem problem = oracle::random_problem(random, i % 10 == 0 ? 64 : 16);
    problem.pareto = i % 3 == 0;
    CAPTURE(i);
    const SearchResult found = find_layouts(problem);
    const std::vector<Candidate> all = oracle::brute_search(problem, found.at_risk);
    check_same(found.ranking.best(), rank(problem, all).best());
    check_choice(problem, found, all);
    if (problem.pareto) check_front(found.front.members(), running(all));
    solved += !all.empty();
    infeasible += all.empty();
    moe += problem.model.moe() && !all.empty();
  }
  // The generator must not drift into trivial problems.
  CHECK(solved >= oracle::at_least(220));
  CHECK(moe >= oracle::at_least(60));
  CHECK(infeasible >= oracle::at_least(5));
}

TEST_CASE("search finds what brute force finds under each framework's rules") {
  std::mt19937 random(20261121);
  for (const FrameworkRow& row : frameworks()) {
    const Framework framework = row.framework;
    if (!named(framework) || framework == Framework::Megatron) continue;  // whose rules every other test has
    int solved = 0, sharded = 0;
    for (int i = 0; i < oracle::rounds(60); ++i) {
      Problem problem = oracle::random_problem(random, i % 10 == 0 ? 32 : 12);
      problem.framework = framework;
      leave_to_framework(problem);
      CAPTURE(framework_row(framework).name);
      CAPTURE(i);
      const SearchResult found = find_layouts(problem);
      const std::vector<Candidate> all = oracle::brute_search(problem, found.at_risk);
      check_same(found.ranking.best(), rank(problem, all).best());
      check_choice(problem, found, all);
      for (const Candidate& candidate : found.ranking.best()) CHECK(broken_rule(problem, candidate.layout) < 0);
      solved += !all.empty();
      sharded += !all.empty() && found.ranking.best().front().layout.zero >= 2;
    }
    CHECK(solved >= oracle::at_least(25));
    CHECK(sharded >= oracle::at_least(5));
  }
}

TEST_CASE("search finds what brute force finds on models, batches and fixed axes of every kind") {
  std::mt19937 random(20261122);
  for (const FrameworkRow& row : frameworks())
    for (const Objective objective : {Objective::StepTime, Objective::Memory, Objective::Cost}) {
      const Framework framework = row.framework;
      if (framework == Framework::None) continue;
      int solved = 0;
      for (int i = 0; i < oracle::rounds(120); ++i) {
        Problem problem = oracle::widened(oracle::random_problem(random, 16), random);
        problem.framework = framework, problem.objective = objective;
        if (framework != Framework::Any && framework != Framework::Megatron) leave_to_framework(problem);
        problem.pareto = i % 4 == 0;
        CAPTURE(framework_row(framework).name);
        CAPTURE(i);
        const SearchResult found = find_layouts(problem);
        const std::vector<Candidate> all = oracle::brute_search(problem, found.at_risk);
        check_same(found.ranking.best(), rank(problem, all).best());
        check_choice(problem, found, all);
        if (problem.pareto) check_front(found.front.members(), running(all));
        if (found.at_risk) CHECK(running(oracle::brute_search(problem, false)).empty());
        solved += !all.empty();
      }
      CHECK(solved >= oracle::at_least(1));
    }
}

TEST_CASE("search finds what brute force finds where the job leaves switches free") {
  std::mt19937 random(20261125);
  int graphs = 0, offloaded = 0, weights = 0, activations = 0, chosen = 0, kept = 0;
  for (const FrameworkRow& row : frameworks()) {
    const Framework framework = row.framework;
    const bool switches =
        row.graphs_of_parts || row.offloads_optimizer || row.offloads_weights || row.offloads_activations;
    if (framework != Framework::Any && !(named(framework) && switches)) continue;
    for (int i = 0; i < oracle::rounds(240); ++i) {
      Problem problem = oracle::random_problem(random, i % 10 == 0 ? 32 : 12);
      if (i % 2 == 0) problem = oracle::widened(problem, random);
      problem.framework = framework;
      if (named(framework) && framework != Framework::Megatron) leave_to_framework(problem);
      problem.free_switches = static_cast<SwitchMask>(1 + random() % 15);
      problem.cluster.gpu.host_link = BytesPerSecond(random() % 5 == 0 ? 0 : 55e9);
      if (i % 3 == 0) problem.cluster.host_memory = Bytes((std::int64_t{1} << 30) << (random() % 8));
      // The host launches more slowly than the GPU works, or about as slowly.
      if (i % 4 != 0) problem.training.seq = 128 << (random() % 4);
      CAPTURE(framework_row(framework).name);
      CAPTURE(i);
      const SearchResult found = find_layouts(problem);
      const std::vector<Candidate> all = oracle::brute_search(problem, found.at_risk);
      check_same(found.ranking.best(), rank(problem, all).best());
      check_choice(problem, found, all);
      if (found.ranking.best().empty()) continue;
      const SwitchMask on = found.ranking.best().front().switched;
      graphs += (on & kSwitchGraphs) != 0, offloaded += (on & kSwitchOptimizer) != 0;
      activations += (on & kSwitchActivations) != 0, weights += (on & kSwitchWeights) != 0;
      chosen += found.recommended->switched != 0, kept += on != 0 && found.recommended->switched == 0;
    }
  }
  CHECK(graphs >= oracle::at_least(20));
  CHECK(offloaded >= oracle::at_least(20));
  CHECK(activations >= oracle::at_least(20));
  CHECK(weights >= oracle::at_least(2));  // random jobs seldom need it
  CHECK(chosen >= oracle::at_least(20));
  CHECK(kept >= oracle::at_least(1));  // a gain too small to be sure of turns nothing on
}

TEST_CASE("threads do not change the answer or the counts") {
  std::mt19937 random(7);
  for (int i = 0; i < 10; ++i) {
    Problem problem = oracle::random_problem(random, 64);
    problem.threads = 1, problem.pareto = i % 2 == 0;
    const SearchResult one = find_layouts(problem);
    for (const int threads : {2, 8}) {
      problem.threads = threads;
      const SearchResult more = find_layouts(problem);
      check_same(one.ranking.best(), more.ranking.best());
      check_same(one.front.members(), more.front.members());
      CHECK(one.stats.considered == more.stats.considered);
      CHECK(one.stats.pruned == more.stats.pruned);
      CHECK(one.stats.fit == more.stats.fit);
    }
  }
}

TEST_CASE("searches under ever less memory give points of the whole front") {
  std::mt19937 random(29);
  std::size_t several = 0;
  for (int i = 0; i < 30; ++i) {
    Problem problem = oracle::random_problem(random, 32);
    const std::vector<Estimate> some = memory_front(problem, 6);
    for (const Estimate& point : some) {  // one that lies between two of them joins, one that is beaten does not
      Estimate between = point, worse = point;
      between.peak = Bytes(point.peak.value - 1), between.step_time = 1.0001 * point.step_time;
      worse.peak = Bytes(point.peak.value + 1);
      const std::vector<Estimate> more = with_point(some, between);
      CHECK(more.size() == some.size() + 1);
      CHECK(std::is_sorted(more.begin(), more.end(), [](const Estimate& a, const Estimate& b) {
        return a.step_time < b.step_time && a.peak > b.peak;
      }));
      CHECK(with_point(some, worse).size() == some.size());
      CHECK(with_point(with_point({}, worse), point).size() == 1);
    }
    problem.pareto = true;
    const SearchResult whole = find_layouts(problem);
    CHECK(some.empty() == whole.front.members().empty());
    several += some.size() > 1;
    for (const Estimate& point : some) {
      CHECK(std::any_of(whole.front.members().begin(), whole.front.members().end(), [&](const Candidate& member) {
        return member.score.step_time <= point.step_time * (1 + 1e-12) && member.score.peak <= point.peak;
      }));
      CHECK(std::none_of(whole.front.members().begin(), whole.front.members().end(), [&](const Candidate& member) {
        return member.score.step_time < point.step_time * (1 - 1e-9) && member.score.peak < point.peak;
      }));
    }
  }
  CHECK(several >= 5);
}

TEST_CASE("where layers have to be rebuilt together to fit, they are, as one by one where they need not") {
  Problem problem;
  problem.model = oracle::dense_model(64, 2048, 16, 4, 8192, 32000);
  problem.cluster = oracle::plain_cluster();
  problem.framework = Framework::Megatron;
  problem.gpus = 8, problem.training.seq = 8192, problem.training.global_batch = 64;
  problem.fixed.tp = problem.fixed.cp = problem.fixed.pp = 1, problem.fixed.micro_batch = 8, problem.fixed.zero = 1;
  Layout layout;
  layout.dp = 8, layout.micro_batch = 8, layout.recompute.kind = RecomputeKind::Full;
  const auto peak = [&](int together) {
    layout.recompute.uniform = together;
    const Estimate e = estimate(problem, layout);
    return static_cast<double>(e.peak.value);
  };
  const double one = peak(0), two = peak(2);
  REQUIRE(two < 0.95 * one);
  for (const double room : {1.01 * one, 0.5 * (one + two)}) {
    problem.headroom.bytes = static_cast<double>(problem.cluster.gpu.memory.value) - room;
    const SearchResult found = find_layouts(problem);
    REQUIRE(found.recommended);
    CHECK(found.recommended->layout.recompute.kind == RecomputeKind::Full);
    CHECK((found.recommended->layout.recompute.uniform > 1) == (room < one));
    check_same(found.ranking.best(), rank(problem, oracle::brute_search(problem, found.at_risk)).best());
  }
}

TEST_CASE("bounds only save work") {
  std::mt19937 random(11);
  for (int i = 0; i < 20; ++i) {
    const Problem problem = oracle::random_problem(random, 32);
    const SearchResult with = find_layouts(problem, true), without = find_layouts(problem, false);
    check_same(with.ranking.best(), without.ranking.best());
    check_same(with.paper.best(), without.paper.best());
    check_same(with.near, without.near);
    CHECK(with.stats.considered == without.stats.considered);
    CHECK(without.stats.pruned == 0);
  }
}
