// What failures cost, against a simulation that interrupts a job at random.
#include "planner/estimate/failures.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "oracle/random_problem.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

namespace {

Problem llama_70b(int gpus) {
  Problem problem;
  problem.model = oracle::dense_model(80, 8192, 64, 8, 28672, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.cluster.gpu_mtbf_hours = 50'000;
  problem.gpus = gpus;
  problem.training.seq = 8192, problem.training.global_batch = 1024;
  return problem;
}

/// Share of a long time that ends up in a checkpoint, with interruptions at random moments: also while the job starts
/// again or writes.
double simulated(double mtti, double interval, double checkpoint, double restart, std::mt19937_64& random) {
  std::exponential_distribution<double> wait(1 / mtti);
  double now = 0, kept = 0, next = wait(random);
  for (int segment = 0; segment < 200'000; ++segment) {
    for (;;) {  // until the segment and its checkpoint get through
      if (now + interval + checkpoint <= next) break;
      now = next, next = now + wait(random);
      while (now + restart > next) now = next, next = now + wait(random);  // interrupted while it starts
      now += restart;
    }
    now += interval + checkpoint, kept += interval;
  }
  return kept / now;
}

}  // namespace

TEST_CASE("goodput is what is left when a job is interrupted at random") {
  std::mt19937_64 random(20261122);
  for (const int gpus : {1024, 16384, 65536}) {
    const Goodput found = goodput_of(llama_70b(gpus)).value();
    CAPTURE(gpus);
    CHECK(found.interruption.value == doctest::Approx(50'000.0 * 3600 / gpus));
    const double share = simulated(found.interruption.value, found.interval.value, found.checkpoint_time.value,
                                   found.restart.value, random);
    CHECK(found.ratio == doctest::Approx(share).epsilon(0.01));
  }
}

TEST_CASE("no other interval between checkpoints loses less") {
  for (const int gpus : {64, 4096, 65536}) {
    const Goodput found = goodput_of(llama_70b(gpus), {.storage_bytes_per_s = 2e11}).value();
    const double mtti = found.interruption.value, delta = found.checkpoint_time.value;
    const auto wall = [&](double interval) {  // for a second of progress, the restart being the same for all
      return (std::exp((interval + delta) / mtti) - 1) / interval;
    };
    double least = wall(found.interval.value);
    for (double factor = 0.2; factor < 5; factor *= 1.05) CHECK(least <= wall(factor * found.interval.value) * 1.001);
  }
}

TEST_CASE("a checkpoint has the weights and the optimizer's states of what is trained") {
  Problem problem = llama_70b(256);
  const double parameters =
      2 * 128256.0 * 8192 + 8192 + 80 * (2.0 * 8192 * 8192 + 2.0 * 8192 * 1024 + 3.0 * 8192 * 28672 + 2.0 * 8192);
  CHECK(checkpoint_bytes(problem).value == doctest::Approx(14 * parameters).epsilon(1e-12));
  problem.training.optimizer = Optimizer::Sgd;
  CHECK(checkpoint_bytes(problem).value == doctest::Approx(6 * parameters).epsilon(1e-12));
  problem.training.optimizer = Optimizer::Adam;
  problem.training.stack = framework_row(Framework::Torchtitan).stack;  // fp32 weights are their own master
  CHECK(checkpoint_bytes(problem).value == doctest::Approx(12 * parameters).epsilon(1e-12));
  problem.training.task = Task::Lora;
  CHECK(checkpoint_bytes(problem).value < 0.05 * parameters);
}

TEST_CASE("what somebody states counts, and nothing is guessed of a failure rate") {
  Problem problem = llama_70b(512);
  const Goodput usual = goodput_of(problem).value();
  CHECK(usual.storage == doctest::Approx(512 * 2e12 / 24576));
  CHECK(usual.restart.value == doctest::Approx(600 + usual.checkpoint_time.value));
  const Goodput stated =
      goodput_of(problem, {.gpu_mtbf_hours = 5000, .storage_bytes_per_s = 1e10, .restart = Seconds(60)}).value();
  CHECK(stated.interruption.value == doctest::Approx(5000.0 * 3600 / 512));
  CHECK(stated.checkpoint_time.value == doctest::Approx(checkpoint_bytes(problem).value / 1e10));
  CHECK(stated.restart.value == 60);
  problem.cluster.gpu_mtbf_hours = 0;
  CHECK_FALSE(goodput_of(problem).has_value());
  CHECK(goodput_of(problem, {.gpu_mtbf_hours = 5000}).has_value());
}

TEST_CASE("more failures, slower storage, longer restarts never leave more, and a share stays a share") {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    Problem problem = llama_70b(8 << (random() % 18));
    const auto draw = [&](double from, double to) {
      return from * std::pow(to / from, static_cast<double>(random() % 1000) / 1000);
    };
    FailureFacts facts{
        .gpu_mtbf_hours = draw(10, 1e7), .storage_bytes_per_s = draw(1e6, 1e13), .restart = Seconds(draw(1, 1e5))};
    const double base = goodput_of(problem, facts)->ratio;
    CHECK(base >= 0);
    CHECK(base < 1);
    FailureFacts worse = facts;
    worse.gpu_mtbf_hours = *facts.gpu_mtbf_hours / 2;
    CHECK(goodput_of(problem, worse)->ratio <= base);
    worse = facts, worse.storage_bytes_per_s = *facts.storage_bytes_per_s / 2;
    CHECK(goodput_of(problem, worse)->ratio <= base * (1 + 1e-9));
    worse = facts, worse.restart = *facts.restart * 2;
    CHECK(goodput_of(problem, worse)->ratio <= base);
  }
}

TEST_CASE("fewer replicas keep their share of the batch") {
  const Problem problem = llama_70b(512);
  const Layout layout{.tp = 8, .pp = 4, .dp = 16, .sequence_parallel = true};
  REQUIRE(broken_rule(problem, layout) < 0);
  const FewerReplicas one = with_fewer_replicas(problem, layout, 504).value();
  CHECK(one.layout.dp == 15);
  CHECK(one.problem.gpus == 480);
  CHECK(one.problem.training.global_batch == 960);
  CHECK(broken_rule(one.problem, one.layout) < 0);
  CHECK(with_fewer_replicas(problem, layout, 512)->layout == layout);
  CHECK_FALSE(with_fewer_replicas(problem, layout, 31).has_value());
}
