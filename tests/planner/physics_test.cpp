// The step under which no hardware stays, of made-up estimates: FLOPs at the highest peak, or the weights of a stage
// between the two ends read once in each micro-batch, whichever takes longer.
#include "planner/estimate/physics.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "oracle/random_problem.hpp"

using namespace plan;

TEST_CASE("the least step is that of the heaviest stage between the ends, or of the FLOPs") {
  std::mt19937 random(8);
  int weights = 0, flops = 0;
  for (int round = 0; round < oracle::rounds(300); ++round) {
    Problem problem;
    problem.model = oracle::dense_model(8, 1024, 8, 8, 4096, 32000);
    problem.cluster = oracle::plain_cluster();
    problem.gpus = 1 << (random() % 12);
    problem.training.seq = 1024, problem.training.global_batch = 64;
    Estimate estimate;
    estimate.micro_batches = 1 + static_cast<std::int64_t>(random() % 64);
    const std::size_t stages = 1 + random() % 6;
    double heaviest = 0;
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const auto bytes = static_cast<std::int64_t>(1'000'000'000 * (1 + random() % 1000));
      estimate.stages.push_back({.stage = static_cast<int>(stage), .weights = Bytes(bytes)});
      if (stage > 0 && stage + 1 < stages) heaviest = std::max(heaviest, static_cast<double>(bytes));
    }
    // An eighth of a weight with its master is half a byte, and one of the two passes has it to itself.
    const double reads =
        heaviest / 16 * static_cast<double>(estimate.micro_batches) / problem.cluster.gpu.memory_bandwidth.value;
    Estimate empty = estimate;
    empty.stages.clear();
    const double least = least_step(problem, estimate).value, compute = least_step(problem, empty).value;
    CHECK(compute > 0);
    CHECK(least == doctest::Approx(std::max(compute, reads)).epsilon(1e-12));
    (reads > compute ? weights : flops)++;
    for (const double factor : {0.5, 1 - 1e-6, 1 + 1e-6, 2.0}) {
      estimate.step_time = Seconds(factor * least);
      CHECK(beyond_physics(problem, estimate).has_value() == (factor < 1));
    }
    problem.gpus *= 2;
    CHECK(least_step(problem, empty).value == doctest::Approx(compute / 2).epsilon(1e-12));
  }
  CHECK(weights > oracle::at_least(50));
  CHECK(flops > oracle::at_least(50));
}
