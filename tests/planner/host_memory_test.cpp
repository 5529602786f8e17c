// Memory of the hosts: counted rank by rank and node by node, and what follows where a node has too little.
#include "planner/memory/host_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "draw.hpp"
#include "formulas/parameters.hpp"
#include "formulas/rank_grid.hpp"
#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/search/search.hpp"
#include "small_job.hpp"

namespace {

using namespace plan;
using small::data_parallel;
using small::small_job;

bool has_note(const std::vector<Note>& notes, const std::string& code) {
  return std::any_of(notes.begin(), notes.end(), [&](const Note& note) { return note.code == code; });
}

TEST_CASE("what ranks leave in the memory of the fullest node is the sum over its ranks") {
  std::mt19937 random(20261127);
  for (int i = 0; i < 4000; ++i) {
    Layout layout;
    layout.tp = pick(random, {1, 2, 3, 4, 8}), layout.cp = pick(random, {1, 2, 3});
    layout.pp = pick(random, {1, 2, 3, 4, 6, 16}), layout.dp = pick(random, {1, 2, 3, 5, 8, 16});
    layout.order = random() % 2 == 0 ? AxisOrder::DataOutermost : AxisOrder::PipelineOutermost;
    Cluster cluster;
    cluster.gpus_per_node = pick(random, {1, 2, 3, 4, 8, 72});
    std::vector<RealBytes> of_stage;
    for (int stage = 0; stage < layout.pp; ++stage) of_stage.push_back(RealBytes(static_cast<double>(random() % 1000)));
    const RankGrid grid(layout);
    std::vector<double> nodes(static_cast<std::size_t>(layout.world() / cluster.gpus_per_node) + 1);
    for (int rank = 0; rank < layout.world(); ++rank)
      nodes[static_cast<std::size_t>(rank / cluster.gpus_per_node)] +=
          of_stage[static_cast<std::size_t>(grid.place(rank).pp)].value;
    CAPTURE(i);
    CHECK(host_of_node(cluster, layout, of_stage).value == *std::max_element(nodes.begin(), nodes.end()));
  }
}

TEST_CASE("adam on the host takes 16 bytes a parameter of every copy, and 18 with the weights") {
  // DeepSpeed, estimate_zero2_model_states_mem_needs and estimate_zero3_model_states_mem_needs: 16 and 18 bytes a
  // parameter, without their safety factor of 1.5.
  for (const bool weights : {false, true})
    for (const int gpus : {1, 2, 8, 32}) {
      Problem problem = small_job();
      problem.framework = Framework::DeepSpeed;
      problem.training.stack = stack_on(framework_row(Framework::DeepSpeed), problem.cluster.gpu);
      problem.gpus = gpus;
      problem.training.offload.optimizer = 1, problem.training.offload.parameters = weights;
      Layout layout = data_parallel(3);
      layout.dp = gpus;
      const double parameters = static_cast<double>(model_parameters(problem.model).total);
      const double nodes = std::max(1, gpus / problem.cluster.gpus_per_node);
      const double expected = (weights ? 18 : 16) * parameters / nodes;
      CHECK(static_cast<double>(estimate(problem, layout).host.value) == doctest::Approx(expected).epsilon(1e-6));
    }
}

TEST_CASE("nothing is left on the host unless it is offloaded, and what leaves the GPU arrives there") {
  for (const int zero : {1, 2, 3}) {
    Problem problem = small_job();
    const Layout layout = data_parallel(zero);
    const StageMemory at_home = estimate(problem, layout).stages.front();
    CHECK(at_home.host.value == 0);
    problem.training.offload.optimizer = 0.5;
    const StageMemory half = estimate(problem, layout).stages.front();
    problem.training.offload.optimizer = 1;
    const StageMemory away = estimate(problem, layout).stages.front();
    CHECK(away.optimizer.value == 0);
    CHECK(away.host >= at_home.optimizer);
    CHECK(std::abs(static_cast<double>((away.host - half.host - half.host).value)) <= 2);
  }
  Problem problem = small_job();
  const StageMemory at_home = estimate(problem, data_parallel()).stages.front();
  problem.training.offload.modules = kOffloadQkvLinear | kOffloadCoreAttention;
  const StageMemory away = estimate(problem, data_parallel()).stages.front();
  CHECK(away.host.value > 0);
  CHECK(std::abs(static_cast<double>((at_home.activations - away.activations - away.host).value)) <= 8);
}

TEST_CASE("more memory in a node never makes a job fit worse, and unknown memory judges nothing") {
  Problem problem = small_job();
  problem.training.offload.optimizer = 1;
  const Layout layout = data_parallel();
  const Estimate unknown = estimate(problem, layout);
  REQUIRE(unknown.fits == Fits::Yes);
  CHECK(unknown.host_capacity.value == 0);
  CHECK(has_note(host_notes(problem, unknown), "host_memory_unknown"));
  Fits last = Fits::No;
  for (double share = 0.5; share < 1.5; share += 0.01) {
    problem.cluster.host_memory = Bytes(static_cast<std::int64_t>(share * static_cast<double>(unknown.host.value)));
    const Estimate now = estimate(problem, layout);
    CHECK(now.host == unknown.host);
    CHECK(now.fits <= last);
    last = now.fits;
    CHECK(now.fits == (share < 0.995 ? Fits::No : share < 1 / kHostShare ? Fits::AtRisk : Fits::Yes));
    CHECK(fits_gpu(now) == Fits::Yes);
    const std::vector<Note> notes = host_notes(problem, now);
    CHECK(has_note(notes, "host_memory_short") == (now.fits == Fits::No));
    CHECK(has_note(notes, "host_memory_at_risk") == (now.fits == Fits::AtRisk));
  }
  CHECK(last == Fits::Yes);
}

TEST_CASE("the search turns nothing on that the hosts cannot hold") {
  Problem problem = small_job();
  problem.free_switches = kSwitchOptimizer | kSwitchActivations;
  problem.cluster.gpu.host_link = BytesPerSecond(55e9);
  // As little memory as makes the optimizer leave.
  double gib = 79.6;
  for (; gib > 2; gib *= 0.9) {
    problem.cluster.gpu.memory = Bytes(static_cast<std::int64_t>(gib * kGiB));
    const Result<Plan> plan = search(problem);
    REQUIRE(plan.has_value());
    if (plan->problem.training.offload.any()) break;
  }
  REQUIRE(gib > 2);
  const Result<Plan> roomy = search(problem);
  problem.cluster.host_memory = Bytes(roomy->best.host.value / 64);
  const Result<Plan> tight = search(problem);
  if (tight) {
    CHECK(tight->best.host <= kHostShare * RealBytes(problem.cluster.host_memory));
  } else {
    CHECK(tight.error().front().code == "no_layout");
  }
  problem.free_switches = 0;
  problem.training.offload.optimizer = 1;
  const Result<Plan> stated = search(problem);
  REQUIRE(!stated.has_value());
  CHECK(stated.error().front().message.find("no layout fits the hosts") != std::string::npos);
}

}  // namespace
