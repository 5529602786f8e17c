// Shadow prices: what is offered is what the changed job's own search says.
#include "planner/choice/advice.hpp"
#include "planner/planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "oracle/random_problem.hpp"
#include "planner/choice/choice.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/search/switches.hpp"

using namespace plan;

namespace {

Problem llama_8b(int gpus, std::int64_t batch) {
  Problem problem;
  problem.model = oracle::dense_model(32, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.cluster.gpu.price_per_hour = 2;
  problem.cluster.gpu.host_link = BytesPerSecond(63e9);
  problem.gpus = gpus;
  problem.training.seq = 8192, problem.training.global_batch = batch;
  problem.framework = Framework::Megatron;
  return problem;
}

double fastest_rate(const Problem& problem) {
  const RunnableSearch found = find_runnable(problem);
  REQUIRE_FALSE(found.result.ranking.best().empty());
  return static_cast<double>(found.problem.training.tokens_per_step()) /
         found.result.ranking.best().front().score.step_time.value;
}

}  // namespace

TEST_CASE("what a change brings is what a search of the changed job brings") {
  Problem problem = llama_8b(24, 128);
  problem.fixed.tp = 2;
  const Plan plan = search(problem).value();
  const std::vector<Advice> all = advice(problem, plan);
  REQUIRE_FALSE(all.empty());
  double last = 1e9;
  for (const Advice& one : all) {
    CAPTURE(one.change);
    CHECK(one.faster >= kWorthSaying);
    CHECK(one.faster <= last);
    last = one.faster;
    const double rate = fastest_rate(one.problem), base = plan.fastest->tokens_per_s;
    CHECK(one.faster == doctest::Approx(rate / base - 1).epsilon(1e-9));
    const double price = one.problem.cluster.gpu.price_per_hour;
    if (one.cheaper)
      CHECK(*one.cheaper == doctest::Approx(1 - price * one.problem.gpus / rate / (2.0 * 24 / base)).epsilon(1e-9));
  }
  CHECK(std::any_of(all.begin(), all.end(), [](const Advice& one) { return one.change == "leave tp free"; }));
  CHECK(std::any_of(all.begin(), all.end(), [](const Advice& one) { return one.change.find("--global-batch ") == 0; }));
}

TEST_CASE("batches near the job's have the odd factor of its GPUs") {
  const std::vector<ChangedJob> near = near_batches(llama_8b(12288, 2048));
  REQUIRE_FALSE(near.empty());
  for (const ChangedJob& change : near) {
    const std::int64_t batch = change.problem.training.global_batch;
    CAPTURE(batch);
    CHECK(batch % 3 == 0);
    CHECK(batch != 2048);
    CHECK(batch >= 1536);
    CHECK(batch <= 2560);
    CHECK(change.flag == "--global-batch " + std::to_string(batch));
  }
  CHECK(std::any_of(near.begin(), near.end(),
                    [](const ChangedJob& c) { return c.problem.training.global_batch == 2304; }));
  CHECK(near_batches(llama_8b(4096, 2048)).empty());
  CHECK(near_batches(llama_8b(4096, 512)).empty());
  const std::vector<ChangedJob> twos = near_batches(llama_8b(256, 1538));  // 2 * 769
  REQUIRE_FALSE(twos.empty());
  CHECK(twos.front().problem.training.global_batch == 1536);
  CHECK(near_batches(llama_8b(8, 1100)).front().problem.training.global_batch % 8 == 0);
  CHECK(near_batches(llama_8b(12288, 3072)).empty());
}

TEST_CASE("what is advised under Megatron has the defaults that its word takes, unless the job states others") {
  Problem any = llama_8b(24, 128);
  any.framework = Framework::Any, any.training.stack = framework_row(Framework::Any).stack;
  Problem own = any;
  own.training.stack.eager_launches = !own.training.stack.eager_launches;
  int named = 0;
  for (const auto changes : {graph_launches, narrower_states, offloads}) {
    for (const ChangedJob& change : changes(any)) {
      if (change.flag.find("--framework megatron ") != 0) continue;
      Stack stack = change.problem.training.stack;
      stack.graph_scopes = 0;
      CHECK(stack == framework_row(Framework::Megatron).stack);
      ++named;
    }
    for (const ChangedJob& change : changes(own))
      CHECK(change.problem.training.stack.eager_launches == own.training.stack.eager_launches);
  }
  CHECK(named >= 3);
}

TEST_CASE("a plan says that another batch would suit its GPUs") {
  const auto said = [](const Plan& plan) {
    return std::any_of(plan.notes.begin(), plan.notes.end(), [](const Note& n) { return n.code == "other_batch"; });
  };
  Problem problem = llama_8b(24, 128);
  const Plan plan = search(problem).value();
  problem.training.global_batch = near_batches(problem).front().problem.training.global_batch;
  const double gain = fastest_rate(problem) / plan.fastest->tokens_per_s - 1;
  CHECK(said(plan) == (gain >= 0.03));
  CHECK_FALSE(said(search(llama_8b(32, 128)).value()));
}

TEST_CASE("what does not fit is offered more room, the cheapest first") {
  Problem problem = llama_8b(1, 64);
  problem.training.task = Task::FullFinetune;
  const auto plan = search(problem);
  REQUIRE_FALSE(plan.has_value());
  const std::vector<Change>& changes = plan.error().front().changes;
  REQUIRE_FALSE(changes.empty());
  CHECK(changes.size() <= 3);
  const auto offers = [&](const char* words) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const Change& change) { return change.flags.find(words) == 0; });
  };
  CHECK(offers("--task lora"));
  Problem adapters = problem;
  adapters.training.task = Task::Lora;
  CHECK(search(adapters).has_value());
  problem.training.task = Task::Pretrain;
  const auto trained = search(problem);
  REQUIRE_FALSE(trained.has_value());
  for (const Change& change : trained.error().front().changes) CHECK(change.flags.find("--task") == std::string::npos);
}

TEST_CASE("fp16 is offered to who has no bf16 alone") {
  Problem problem = llama_8b(8, 64);
  problem.training.precision = Precision::Fp32;
  const auto offered = [&](Precision precision) {
    const std::vector<ChangedJob> changes = other_precisions(problem);
    return std::any_of(changes.begin(), changes.end(),
                       [&](const ChangedJob& change) { return change.problem.training.precision == precision; });
  };
  CHECK(offered(Precision::Bf16));
  CHECK_FALSE(offered(Precision::Fp16));
  problem.cluster.gpu.peak[static_cast<std::size_t>(DType::Bf16)] = {};
  CHECK_FALSE(offered(Precision::Bf16));
  CHECK(offered(Precision::Fp16));
}
