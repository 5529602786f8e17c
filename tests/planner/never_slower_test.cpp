// More of anything never trains slower: GPUs, bandwidth, FLOP/s, memory, headroom.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "free_problem.hpp"
#include "oracle/random_problem.hpp"
#include "planner/choice/choice.hpp"
#include "planner/choice/fewer_gpus.hpp"
#include "planner/choice/searches.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/search/switches.hpp"

using namespace plan;

TEST_CASE("more GPUs are never slower than fewer by more than a plainer layout may be") {
  std::mt19937 random(20261123);
  int idle = 0;
  for (int i = 0; i < oracle::rounds(12); ++i) {
    const Problem problem = free_problem(random);
    Seconds least;  // of the fastest steps on exactly 1, 2, ... GPUs
    for (int gpus = 1; gpus <= 13; ++gpus) {
      const SearchResult exact = find_layouts(on(problem, gpus));
      if (!exact.ranking.best().empty() && !exact.at_risk)
        least = least > Seconds() ? std::min(least, fastest(exact)) : fastest(exact);
      if (!(least > Seconds())) continue;
      const RunnableSearch found = find_on_at_most(on(problem, gpus));
      REQUIRE_FALSE(found.result.ranking.best().empty());
      CAPTURE(i);
      CAPTURE(gpus);
      CHECK(fastest(found.result) <= 1.03 * least * (1 + 1e-9));
      idle += found.problem.gpus < gpus;
    }
  }
  CHECK(idle >= oracle::at_least(5));
}

TEST_CASE(
    "what is recommended on more GPUs takes no longer than what is recommended on fewer, but for one in a hundred") {
  std::mt19937 random(20261130);
  int asked = 0, slower = 0, capped = 0;
  for (int i = 0; i < oracle::rounds(40); ++i) {
    Problem problem = free_problem(random);
    problem.cluster.gpus_per_node = 4, problem.cluster.tiers.front().size = 4;
    Seconds least;
    for (const int gpus : {4, 7, 8, 11, 12, 14, 15, 16, 20, 23, 24, 28}) {
      const RunnableSearch found = find_on_at_most(on(problem, gpus));
      if (!found.result.recommended || found.result.at_risk || found.nothing_runs) continue;
      const Seconds step = found.result.recommended->score.step_time;
      ++asked, slower += least > Seconds() && step > least * (1 + 1e-9);
      const RunnableSearch alone = find_runnable(found.problem);
      capped += alone.result.recommended && step < alone.result.recommended->score.step_time;
      least = least > Seconds() ? std::min(least, step) : step;
    }
  }
  CHECK(100 * slower <= asked);
  CHECK(capped >= oracle::at_least(5));
}

TEST_CASE("nor are several nodes slower than a number that cuts one, but for one in a hundred") {
  std::mt19937 random(20261129);
  int asked = 0, slower = 0, cut = 0;
  for (int i = 0; i < oracle::rounds(8); ++i) {
    Problem problem = free_problem(random);
    problem.cluster.gpus_per_node = 4, problem.cluster.tiers.front().size = 4;
    problem.training.global_batch = std::array{100, 60, 250, 90, 1000, 36}[random() % 6];
    Seconds least;
    for (int gpus = 14; gpus <= 37; ++gpus) {
      const SearchResult exact = find_layouts(on(problem, gpus), {.best_alone = true, .certain = true});
      if (!exact.ranking.best().empty()) least = least > Seconds() ? std::min(least, fastest(exact)) : fastest(exact);
      if (!(least > Seconds())) continue;
      const RunnableSearch found = find_on_at_most(on(problem, gpus));
      REQUIRE_FALSE(found.result.ranking.best().empty());
      ++asked, slower += fastest(found.result) > 1.03 * least * (1 + 1e-9);
      cut += found.problem.gpus % 4 != 0;
    }
  }
  CHECK(100 * slower <= asked);
  CHECK(cut >= oracle::at_least(5));
}

TEST_CASE("nor where the hosts hold what fewer GPUs have no room for, by more than that has to be worth") {
  std::mt19937 random(20261202);
  int away = 0, back = 0;
  for (int i = 0; i < oracle::rounds(12); ++i) {
    Problem problem = free_problem(random);
    problem.cluster.gpu.host_link = BytesPerSecond(55e9), problem.cluster.host_memory = round_bytes(4096 * kGiB);
    problem.cluster.gpu.memory = round_bytes((2 + static_cast<double>(random() % 6)) * kGiB);
    problem.training.seq = 256 << (random() % 4);
    problem.free_switches = kSwitchOptimizer | kSwitchActivations;
    Seconds least;
    bool before = false;
    for (int gpus = 1; gpus <= 13; ++gpus) {
      const RunnableSearch found = find_on_at_most(on(problem, gpus));
      if (ready(found) != Ready::Yes) continue;
      CAPTURE(i);
      CAPTURE(gpus);
      if (least > Seconds()) CHECK(fastest(found.result) <= 1.1 * 1.03 * least * (1 + 1e-9));
      least = least > Seconds() ? std::min(least, fastest(found.result)) : fastest(found.result);
      const bool leaves = (found.result.ranking.best().front().switched & kHostSwitches) != 0;
      away += leaves, back += before && !leaves;
      before = leaves;
    }
  }
  CHECK(away >= oracle::at_least(5));
  CHECK(back >= oracle::at_least(2));
}

TEST_CASE("GPUs stay idle for what the hosts hold only where all of them are slower with the hosts, too") {
  std::mt19937 random(20261203);
  int idle = 0;
  for (int i = 0; i < oracle::rounds(40); ++i) {
    Problem problem = free_problem(random);
    problem.cluster.gpu.host_link = BytesPerSecond(55e9);
    problem.cluster.host_memory = round_bytes((i % 4 == 0 ? 0 : 4096) * kGiB);
    problem.cluster.gpu.memory = round_bytes((1 + static_cast<double>(random() % 4)) * kGiB);
    problem.training.seq = 256 << (random() % 4);
    problem.free_switches = kSwitchOptimizer | kSwitchActivations;
    for (int gpus = 5; gpus <= 23; gpus += 2) {
      const Problem asked = on(problem, gpus);
      const RunnableSearch found = find_on_at_most(asked);
      const bool leaves =
          ready(found) == Ready::Yes && (found.result.ranking.best().front().switched & kHostSwitches) != 0;
      if (!leaves || found.problem.gpus == gpus || found.all_ready != Ready::Yes) continue;
      CAPTURE(i);
      CAPTURE(gpus);
      Searches searches;
      const RunnableSearch hosted = find_offloaded(asked, {.best_alone = true}, Seconds::infinity(), searches);
      ++idle;
      if (ready(hosted) == Ready::Yes) CHECK(1.03 * fastest(found.result) <= fastest(hosted.result) * (1 + 1e-9));
    }
  }
  CHECK(idle >= oracle::at_least(1));
}

TEST_CASE("no host is left to step what takes products of matrices") {
  std::mt19937 random(20261204);
  int left = 0;
  for (int i = 0; i < oracle::rounds(60); ++i) {
    Problem problem = free_problem(random);
    problem.cluster.gpu.host_link = BytesPerSecond(55e9), problem.cluster.host_memory = round_bytes(4096 * kGiB);
    problem.free_switches = kSwitchOptimizer | kSwitchWeights | kSwitchActivations;
    for (const Optimizer optimizer : {Optimizer::Adam, Optimizer::Muon, Optimizer::Adafactor}) {
      problem.training.optimizer = optimizer;
      const bool states = (turnable_switches(problem) & (kSwitchOptimizer | kSwitchWeights)) != 0;
      if (optimizer == Optimizer::Adam)
        left += states;
      else
        CHECK_FALSE(states);
    }
  }
  CHECK(left >= oracle::at_least(20));
}

TEST_CASE("more bandwidth, FLOP/s or memory bandwidth is never slower") {
  struct Lever {
    const char* what;
    void (*turn)(Cluster&, double);
  };
  const Lever levers[] = {
      {"network",
       [](Cluster& c, double times) {
         c.gpu.nic = c.gpu.nic * times;
         for (std::size_t i = 1; i < c.tiers.size(); ++i) c.tiers[i].bandwidth = c.tiers[i].bandwidth * times;
       }},
      {"scale-up",
       [](Cluster& c, double times) {
         c.gpu.scale_up = c.gpu.scale_up * times;
         c.tiers[0].bandwidth = c.tiers[0].bandwidth * times;
       }},
      {"FLOP/s",
       [](Cluster& c, double times) {
         for (FlopsPerSecond& peak : c.gpu.peak) peak = peak * times;
       }},
      {"memory bandwidth", [](Cluster& c, double times) { c.gpu.memory_bandwidth = c.gpu.memory_bandwidth * times; }}};
  std::mt19937 random(20261125);
  int moved = 0;
  for (int i = 0; i < oracle::rounds(40); ++i) {
    const Problem problem = free_problem(random);
    const SearchResult base = find_layouts(problem);
    if (base.ranking.best().empty() || base.at_risk) continue;
    for (const Lever& lever : levers) {
      Problem faster = problem;
      lever.turn(faster.cluster, 1.7);
      const SearchResult more = find_layouts(faster);
      CAPTURE(i);
      CAPTURE(std::string(lever.what));
      CHECK(fastest(more) <= fastest(base) * (1 + 1e-9));
      moved += fastest(more) < fastest(base) * (1 - 1e-6);
    }
  }
  CHECK(moved >= oracle::at_least(40));
}

TEST_CASE("more memory is never slower, and a tighter headroom never faster") {
  std::mt19937 random(20261124);
  int moved = 0;
  for (int i = 0; i < oracle::rounds(40); ++i) {
    Problem problem = free_problem(random);
    problem.cluster.gpu.memory = round_bytes((2 + static_cast<double>(random() % 8)) * kGiB);
    const SearchResult base = find_layouts(problem);
    if (base.ranking.best().empty() || base.at_risk) continue;
    Problem roomy = problem, tight = problem;
    roomy.cluster.gpu.memory = round_bytes(1.5 * static_cast<double>(problem.cluster.gpu.memory.value));
    tight.headroom.share =
        1 - 0.9 * certain_memory(problem) / problem.cluster.gpu.memory;  // a tenth less than fits without it
    const SearchResult more = find_layouts(roomy), less = find_layouts(tight);
    CAPTURE(i);
    CHECK(fastest(more) <= fastest(base) * (1 + 1e-12));
    if (!less.ranking.best().empty()) CHECK(fastest(less) >= fastest(base) * (1 - 1e-12));
    moved += fastest(more) < fastest(base);
  }
  CHECK(moved >= oracle::at_least(3));
}
