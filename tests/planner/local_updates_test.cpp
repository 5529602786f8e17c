// Copies that train apart, against the same job without them and against a job of one copy.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "formulas/parameters.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/enumerate.hpp"
#include "planner/search/search.hpp"

using namespace plan;

namespace {

constexpr int kSites = 4, kSite = 64, kEvery = 500;

/// Four sites of 64 GPUs, joined by lines that give each GPU 50 MB/s over 30 ms.
Problem far_apart() {
  Problem problem;
  problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 32000);
  problem.cluster = oracle::plain_cluster();
  problem.cluster.tiers = {
      {.name = "nvlink", .size = 8, .bandwidth = BytesPerSecond(450e9)},
      {.name = "rail", .size = kSite, .bandwidth = BytesPerSecond(50e9)},
      {.name = "wan", .size = 1 << 20, .bandwidth = BytesPerSecond(50e6), .latency = Seconds(0.03)}};
  problem.gpus = kSites * kSite;
  problem.training.seq = 4096, problem.training.global_batch = 1024;
  return problem;
}

Layout replicas(int dp, int zero) {
  Layout layout;
  layout.dp = dp, layout.zero = zero;
  return layout;
}

Problem apart(Problem problem) {
  problem.training.local = {.steps = kEvery, .copies = kSites};
  problem.framework = Framework::None;
  return problem;
}

}  // namespace

TEST_CASE("copies that meet every 500 steps train nearly as one copy does, and far faster than over the long line") {
  const Problem together = far_apart(), meeting = apart(together);
  Problem one = together;
  one.gpus = kSite, one.training.global_batch = together.training.global_batch / kSites;
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    Layout layout = replicas(kSites * kSite, zero);
    const Estimate slow = estimate(together, layout);
    if (zero > 0) layout.shard = kSite;
    REQUIRE(broken_rule(meeting, layout) == -1);
    const Estimate fast = estimate(meeting, layout), alone = estimate(one, replicas(kSite, zero));
    CHECK(fast.step_time < slow.step_time);
    // What is left between copies: 4 bytes a parameter, shared out over the site, there and back, every 500th step. The
    // slowest of more ranks is a little slower.
    double wan = 0, bytes = 0;
    for (const Communication& row : fast.communication)
      if (row.tier == "wan") wan += row.time.value, bytes += static_cast<double>(row.per_step.value);
    const double parameters = static_cast<double>(model_parameters(together.model).total);
    CHECK(bytes == doctest::Approx(4 * parameters / kSite * 2 * (kSites - 1) / kSites / kEvery).epsilon(0.01));
    CHECK(wan >= bytes / 50e6);
    CHECK(fast.step_time.value - fast.terms.straggler.value - fast.terms.optimizer.value ==
          doctest::Approx(alone.step_time.value - alone.terms.straggler.value - alone.terms.optimizer.value + wan)
              .epsilon(1e-3));
    // Momentum and the parameters of the last meeting, fp32.
    const double more = static_cast<double>(fast.peak.value - alone.peak.value);
    const double states = 8 * parameters / (zero > 0 ? kSite : 1);
    CHECK(more >= states);
    CHECK(more <= 1.05 * states);  // and what the allocator cannot hand out again
  }
}

TEST_CASE("meeting less often is never slower, and a longer line never faster") {
  Layout layout = replicas(kSites * kSite, 1);
  layout.shard = kSite;
  Problem problem = apart(far_apart());
  double before = 0;
  for (const int every : {1000, 100, 10, 1}) {
    problem.training.local.steps = every;
    const double step = estimate(problem, layout).step_time.value;
    CHECK(step >= before);
    before = step;
  }
  problem.cluster.tiers.back().bandwidth = BytesPerSecond(10e6);
  CHECK(estimate(problem, layout).step_time.value > before);
}

TEST_CASE("a pipeline of copies that train apart has them outermost, and nothing else turns the order") {
  for (const bool local : {false, true})
    for (const int pp : {1, 2}) {
      Problem problem = far_apart();
      if (local) problem = apart(problem);
      problem.fixed.pp = pp, problem.fixed.zero = 1;
      const Layout layout = complete_layout(problem);
      CHECK(layout.order == (local && pp > 1 ? AxisOrder::DataOutermost : AxisOrder::PipelineOutermost));
      problem.fixed.order = AxisOrder::PipelineOutermost;
      CHECK(complete_layout(problem).order == AxisOrder::PipelineOutermost);
    }
}

TEST_CASE("the search keeps copies apart") {
  const SearchResult found = find_layouts(apart(far_apart()));
  REQUIRE_FALSE(found.ranking.best().empty());
  for (const Candidate& candidate : found.ranking.best()) {
    const Layout& l = candidate.layout;
    CHECK(l.dp % kSites == 0);
    CHECK(l.shard == (l.zero > 0 ? l.dense_group() / kSites : 0));
    CHECK((l.pp == 1 || l.order == AxisOrder::DataOutermost));
  }
}

TEST_CASE("every sharding that the rules allow to copies that train apart is tried") {
  const Problem problem = apart(far_apart());
  for (const int tp : {1, 2, 8}) {
    Layout layout = replicas(kSites * kSite / tp, 0);
    layout.tp = tp, layout.sequence_parallel = tp > 1;
    Tally tally;
    std::set<std::pair<int, int>> tried, legal;
    for (const Sharding& one : enumerate_shardings(problem, layout, tally)) tried.emplace(one.zero, one.shard);
    for (layout.zero = 0; layout.zero <= 3; ++layout.zero)
      for (layout.shard = 0; layout.shard <= layout.dense_group(); ++layout.shard)
        if (broken_rule(problem, layout, Level::Sharding) < 0) legal.emplace(layout.zero, layout.shard);
    CHECK(legal.size() == 4);
    CHECK(tried == legal);
  }
}
