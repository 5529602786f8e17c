// GPUs that have too little to do: every change that is named is searched anew here, and what is left alone has no such
// change.
#include "planner/choice/starved.hpp"
#include "planner/planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "oracle/random_problem.hpp"
#include "planner/choice/choice.hpp"

using namespace plan;

namespace {

Problem dense(int layers, int hidden, int gpus, std::int64_t batch) {
  Problem problem;
  problem.model = oracle::dense_model(layers, hidden, hidden / 128, 8, 4 * hidden, 32000);
  problem.cluster = oracle::plain_cluster();
  problem.cluster.gpu.host_link = BytesPerSecond(63e9);
  problem.gpus = gpus;
  problem.training.seq = 2048, problem.training.global_batch = batch;
  problem.framework = Framework::Megatron;
  return problem;
}

double rate_of_gpu(const Problem& problem) {
  const RunnableSearch found = find_runnable(problem);
  if (found.result.ranking.best().empty()) return 0;
  return static_cast<double>(found.problem.training.tokens_per_step()) /
         found.result.ranking.best().front().score.step_time.value / found.problem.gpus;
}

bool offers(const std::vector<Advice>& all, const std::string& word) {
  return std::any_of(all.begin(), all.end(), [&](const Advice& one) { return one.change.find(word) == 0; });
}

}  // namespace

TEST_CASE("what is said to feed starved GPUs is what a search of the changed job brings") {
  const Problem problem = dense(8, 1024, 512, 64);  // one sequence for eight GPUs
  const Plan plan = search(problem).value();
  REQUIRE(plan.fastest->mfu.model_causal < kStarvedMfu);
  const auto all = starved(problem, plan);
  REQUIRE(all);
  REQUIRE_FALSE(all->empty());
  double last = 1e9;
  for (const Advice& one : *all) {
    CAPTURE(one.change);
    const double times = rate_of_gpu(one.problem) / rate_of_gpu(problem);
    CHECK(lift(one, plan) == doctest::Approx(times).epsilon(1e-9));
    CHECK(times >= kLift);
    CHECK(times <= last * (1 + 1e-9));
    CHECK(one.faster == doctest::Approx(times * one.problem.gpus / problem.gpus - 1).epsilon(1e-9));
    last = times;
  }
  CHECK(offers(*all, "--global-batch "));
  REQUIRE(offers(*all, "--gpus "));
  for (const Advice& one : *all)
    if (one.problem.gpus < problem.gpus) CHECK(one.faster >= kAsFast - 1);
}

TEST_CASE("a job that hardly fits is starved if twice the GPUs do twice as much each, and else not") {
  int hungry = 0, fed = 0;
  for (const int layers : {24, 40, 56, 64, 72})
    for (const int gpus : {16, 32}) {
      Problem problem = dense(layers, 8192, gpus, 256);
      problem.fixed.pp = 1;  // what does not fit is gathered over a slow network
      problem.cluster.tiers[1].bandwidth = BytesPerSecond(2e9);
      const Result<Plan> plan = search(problem);
      if (!plan) continue;
      CAPTURE(layers);
      CAPTURE(gpus);
      Problem twice = problem;
      twice.gpus *= 2;
      const double mfu = plan->fastest->mfu.model_causal;
      const bool better = rate_of_gpu(twice) >= kFarBetter * rate_of_gpu(problem) && mfu < kFilled;
      const auto all = starved(problem, *plan);
      CHECK(all.has_value() == (mfu < kStarvedMfu || better));
      if (all && better) CHECK(offers(*all, "--gpus "));
      ++(all ? hungry : fed);
    }
  CHECK(hungry > 0);
  CHECK(fed > 0);
  MESSAGE(hungry << " starved, " << fed << " not");
}

TEST_CASE("a word that starves the GPUs is named; a search for memory is not asked about") {
  Problem problem = dense(32, 4096, 16, 256);
  problem.fixed.tp = 16;  // over two nodes
  problem.cluster.tiers[1].bandwidth = BytesPerSecond(2e9);
  const Plan plan = search(problem).value();
  REQUIRE(plan.fastest->mfu.model_causal < kStarvedMfu);
  const auto all = starved(problem, plan);
  REQUIRE(all);
  CHECK(offers(*all, "leave tp free"));
  problem.objective = Objective::Memory;
  CHECK_FALSE(starved(problem, search(problem).value()));
}
