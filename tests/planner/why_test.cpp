// What one step away would cost, against estimates of that layout made here.
#include "planner/why.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "oracle/random_problem.hpp"
#include "planner/rules/rules.hpp"

using namespace plan;

TEST_CASE("the terms of a sentence are those in which the two layouts differ, the largest first") {
  std::mt19937 random(19);
  int in_seconds = 0, in_milliseconds = 0;
  for (int round = 0; round < oracle::rounds(400); ++round) {
    Problem problem;
    problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 128256);
    problem.cluster = oracle::plain_cluster(random() % 2 == 0 ? 79.6 : 500);
    problem.gpus = 16, problem.training.seq = 4096;
    problem.training.global_batch = 16 << (random() % 6);
    problem.framework = Framework::None;
    Layout layout{.tp = 1 << (random() % 4), .pp = 1 << (random() % 2), .micro_batch = 1 << (random() % 3)};
    layout.dp = problem.gpus / (layout.tp * layout.pp);
    layout.sequence_parallel = layout.tp > 1;
    layout.recompute.kind = random() % 2 == 0 ? RecomputeKind::None : RecomputeKind::Full;
    if (broken_rule(problem, layout) >= 0) continue;
    const Estimate best = estimate(problem, layout);
    Layout bigger = best.layout;
    bigger.chunk_layers.clear(), bigger.micro_batch *= 2;
    const Estimate other = estimate(problem, bigger);
    const std::string change = "micro_batch " + std::to_string(bigger.micro_batch) + " instead of";
    for (const std::string& sentence : why(problem, best, 100)) {
      if (!sentence.starts_with(change)) continue;
      const std::size_t colon = sentence.find("% slower:");
      if (colon == std::string::npos) continue;
      CAPTURE(sentence);
      std::istringstream words(sentence.substr(colon + 9));
      double last = 1e300, value = 0;
      for (std::string term, unit; words >> term >> value >> unit; last = std::abs(value)) {
        REQUIRE((unit == "s" || unit == "ms"));
        CHECK((unit == "s") == (best.step_time.value >= 1));
        (unit == "s" ? in_seconds : in_milliseconds)++;
        const double scale = unit == "s" ? 1 : 1000, rounding = unit == "s" ? 0.00501 : 0.501;
        bool known = false;
        for (const auto& [name, part] : kTimeTerms) {
          if (name != term) continue;
          known = true;
          CHECK(std::abs(value - scale * (other.terms.*part - best.terms.*part).value) <= rounding);
        }
        CHECK(known);
        CHECK(std::abs(value) <= last);
      }
    }
  }
  CHECK(in_seconds >= oracle::at_least(11));
  CHECK(in_milliseconds >= oracle::at_least(11));
}

TEST_CASE("a neighbour that may not fit is never called slower alone") {
  std::mt19937 random(23);
  std::uniform_real_distribution<double> share(0.7, 1.15);
  int told[3] = {};
  for (int round = 0; round < oracle::rounds(300); ++round) {
    Problem problem;
    problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 128256);
    problem.cluster = oracle::plain_cluster(500);
    problem.gpus = 16, problem.training.seq = 16384, problem.training.global_batch = 64;
    problem.framework = Framework::None;
    Layout layout{.tp = 1 << (random() % 4), .pp = 1 << (random() % 2), .micro_batch = 1 << (random() % 2)};
    layout.dp = problem.gpus / (layout.tp * layout.pp);
    layout.sequence_parallel = layout.tp > 1;
    if (broken_rule(problem, layout) >= 0) continue;
    Layout bigger = estimate(problem, layout).layout;
    bigger.chunk_layers.clear(), bigger.micro_batch *= 2;
    if (broken_rule(problem, bigger) >= 0) continue;
    // Memory near what the neighbour needs, most of it activations, so that all answers come up.
    const auto peak = static_cast<double>(estimate(problem, bigger).peak.value);
    problem.cluster = oracle::plain_cluster(share(random) * peak / kGiB);
    const Estimate best = estimate(problem, layout), other = estimate(problem, bigger);
    if (best.fits != Fits::Yes) continue;
    const std::string change = "micro_batch " + std::to_string(bigger.micro_batch) + " instead of";
    for (const std::string& sentence : why(problem, best, 100)) {
      if (!sentence.starts_with(change)) continue;
      CAPTURE(sentence);
      told[static_cast<int>(other.fits)]++;
      CHECK((sentence.find(" needs ") == std::string::npos) == (other.fits == Fits::Yes));
      CHECK((sentence.find("at risk") != std::string::npos) == (other.fits == Fits::AtRisk));
    }
  }
  for (const Fits fits : {Fits::AtRisk, Fits::No}) CHECK(told[static_cast<int>(fits)] >= oracle::at_least(5));
}

TEST_CASE("a plan says what stands one step away from the layout that it recommends") {
  for (const int gpus : {8, 16, 64}) {
    Problem problem;
    problem.model = oracle::dense_model(16, 4096, 32, 8, 14336, 128256);
    problem.cluster = oracle::plain_cluster();
    problem.gpus = gpus, problem.training.seq = 4096, problem.training.global_batch = 64;
    const Result<Plan> plan = search(problem);
    REQUIRE(plan.has_value());
    CHECK_FALSE(plan->why.empty());
    CHECK(plan->why == why(plan->problem, plan->best));
    for (const std::string& sentence : plan->why) CHECK(sentence.find(" instead of ") != std::string::npos);
  }
}
