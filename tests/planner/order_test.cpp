// The order of the axes: where it changes a plan, where it must not, and who runs it.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>

#include "formulas/rank_grid.hpp"
#include "oracle/random_problem.hpp"
#include "planner/answer/plan.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/search.hpp"

using namespace plan;

namespace {

constexpr AxisOrder kOrders[] = {AxisOrder::PipelineOutermost, AxisOrder::DataOutermost};

const Communication* row_of(const Estimate& e, Axis axis) {
  for (const Communication& row : e.communication)
    if (row.axis == axis) return &row;
  return nullptr;
}

Problem small_job(int gpus) {
  Problem problem;
  problem.model = oracle::dense_model(16, 1024, 8, 8, 4096, 32000);
  problem.cluster = oracle::plain_cluster(79.6);
  problem.gpus = gpus;
  problem.training.seq = 2048, problem.training.global_batch = 64;
  return problem;
}

}  // namespace

TEST_CASE("data parallelism between nodes and the layers inside them: 8 nodes of 8") {
  const Problem problem = small_job(64);
  Layout layout;
  layout.pp = 8, layout.dp = 8, layout.order = AxisOrder::DataOutermost;
  const Estimate inside = estimate(problem, layout);
  CHECK(row_of(inside, Axis::Pp)->tier == "nvlink");
  CHECK(row_of(inside, Axis::Dp)->tier == "rail");
  CHECK(row_of(inside, Axis::Dp)->group.inside(8) == 1);
  layout.order = AxisOrder::PipelineOutermost;
  const Estimate outside = estimate(problem, layout);
  CHECK(row_of(outside, Axis::Pp)->tier == "rail");
  CHECK(row_of(outside, Axis::Dp)->tier == "nvlink");
  CHECK(inside.terms.pp < outside.terms.pp);
  CHECK(inside.terms.dp > outside.terms.dp);
  CHECK(inside.peak == outside.peak);
}

TEST_CASE("one hop between nodes in four costs less than four") {
  Problem problem = small_job(32);
  Layout layout;
  layout.pp = 16, layout.dp = 2, layout.micro_batch = 1;
  const Estimate near = estimate(problem, layout);  // stages of 2 ranks: 4 of them on a node
  problem.cluster.tiers.front().size = 2;
  const Estimate far = estimate(problem, layout);
  CHECK(near.terms.pp.value > 0);
  CHECK(near.terms.pp.value < 0.8 * far.terms.pp.value);
}

TEST_CASE("an order that the cluster cannot tell from the other changes nothing") {
  std::mt19937 random(41);
  int legal = 0;
  for (int i = 0; i < 400; ++i) {
    Problem problem = oracle::random_problem(random, 64);
    Layout layout;
    layout.tp = 1 << random() % 3, layout.pp = 1 << random() % 4, layout.dp = 1 << random() % 4;
    layout.cp = 1 << random() % 2;
    layout.zero = static_cast<int>(random() % 4);
    problem.gpus = layout.world();
    problem.cluster.tiers.front().size = layout.tp * layout.cp;
    problem.cluster.tiers.resize(1);
    problem.cluster.tiers.push_back({.name = "rail", .size = 1 << 20, .bandwidth = problem.cluster.gpu.nic});
    if (problem.model.moe()) layout.ep = layout.cp, layout.etp = layout.tp;
    problem.framework = Framework::None;
    if (broken_rule(problem, layout) >= 0) continue;
    ++legal;
    CHECK_FALSE(order_matters(problem.cluster, layout));
    const Estimate one = estimate(problem, layout);
    layout.order = AxisOrder::DataOutermost;
    const Estimate other = estimate(problem, layout);
    CHECK(one.terms == other.terms);
    CHECK(one.stages == other.stages);
  }
  CHECK(legal > 40);
}

TEST_CASE("the search takes the better of both orders") {
  std::mt19937 random(43);
  int better = 0, solved = 0;
  for (int i = 0; i < oracle::rounds(2000); ++i) {
    Problem problem = oracle::random_problem(random, 32);
    problem.objective = Objective::StepTime;
    problem.cluster.tiers[1].size = 16;  // a small leaf below a spine
    problem.cluster.tiers[2].oversubscription = 7;
    const auto fastest = [](const Problem& of) {
      const SearchResult found = find_layouts(of);
      const bool none = found.ranking.best().empty() || found.at_risk;
      return none ? Seconds::infinity() : found.ranking.best().front().score.step_time;
    };
    Seconds each[2], both = fastest(problem);
    for (const int order : {0, 1}) {
      Problem fixed = problem;
      fixed.fixed.order = kOrders[order];
      each[order] = fastest(fixed);
    }
    CAPTURE(i);
    CHECK(both == std::min(each[0], each[1]));
    better += each[1] < each[0], solved += both < Seconds::infinity();
  }
  CHECK(solved >= oracle::at_least(500));
  CHECK(better >= oracle::at_least(2));
}

TEST_CASE("frameworks that number ranks in one order refuse the other") {
  Problem problem = small_job(64);
  Layout layout;
  layout.tp = 2, layout.pp = 4, layout.dp = 8, layout.order = AxisOrder::DataOutermost;
  layout.sequence_parallel = true, layout.zero = 1;
  const auto refused = [&](Framework framework) -> std::string {
    problem.framework = framework, problem.training.stack = framework_row(framework).stack;
    for (const Level level : {Level::Schedule, Level::Sharding})
      if (const int rule = broken_rule(problem, layout, level); rule >= 0)
        return std::string(rules()[static_cast<std::size_t>(rule)].code);
    return {};
  };
  CHECK(refused(Framework::Megatron).empty());
  CHECK(refused(Framework::None).empty());
  CHECK(refused(Framework::Torchtitan) == "torchtitan_order");
  layout.cp = 2, layout.dp = 4;  // a dense model's expert grid is tp wide
  CHECK(refused(Framework::Megatron) == "order_keeps_copies");
  layout.cp = 1, layout.dp = 8, layout.zero = 3;
  problem.fixed.zero = 3;
  CHECK(refused(Framework::Megatron) == "fsdp_order");
  layout.schedule = Schedule::GPipe;
  CHECK(refused(Framework::Maxtext) == "maxtext_order");
  layout.zero = 0;
  CHECK(refused(Framework::Maxtext).empty());
  layout.order = AxisOrder::PipelineOutermost;
  CHECK(refused(Framework::Maxtext) == "maxtext_order");
}

TEST_CASE("with the data outermost experts stay inside their stage") {
  Problem problem = small_job(64);
  Layer moe = problem.model.kinds.front();
  moe.ffn = Ffn::Moe;
  moe.moe = {.experts = 8, .top_k = 2, .expert_width = 512};
  problem.model.kinds.front() = moe;
  problem.framework = Framework::None;
  Layout layout;
  layout.tp = 2, layout.cp = 2, layout.pp = 4, layout.dp = 4, layout.order = AxisOrder::DataOutermost;
  layout.ep = 4;
  CHECK(broken_rule(problem, layout, Level::Schedule) < 0);
  layout.ep = 8;
  const int rule = broken_rule(problem, layout, Level::Schedule);
  REQUIRE(rule >= 0);
  CHECK(rules()[static_cast<std::size_t>(rule)].code == "order_keeps_stages");
  layout.order = AxisOrder::PipelineOutermost;
  CHECK(broken_rule(problem, layout, Level::Schedule) < 0);
}
