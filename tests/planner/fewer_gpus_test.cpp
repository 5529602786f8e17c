// More GPUs never train slower: what does not divide is left idle, and said.
#include "planner/choice/fewer_gpus.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>
#include <tuple>

#include "oracle/random_problem.hpp"
#include "planner/choice/choice.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"

using namespace plan;

namespace {

Seconds fastest(const SearchResult& result) {
  return result.ranking.best().empty() ? Seconds() : result.ranking.best().front().score.step_time;
}

Problem on(Problem problem, int gpus) {
  problem.gpus = gpus;
  return problem;
}

/// A job whose layers, batch and sequence divide badly often, all axes free.
Problem free_problem(std::mt19937& random) {
  Problem problem = oracle::random_problem(random, 16);
  problem.fixed = {};
  problem.objective = Objective::StepTime, problem.framework = Framework::Megatron;
  problem.cluster.gpu.memory = round_bytes(79.6 * kGiB);
  problem.top = 1;
  return problem;
}

}  // namespace

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

TEST_CASE("40 of 296 GPUs stay idle where all of them would train slower, and the plan says so") {
  Problem problem;
  problem.model = oracle::dense_model(80, 8192, 64, 8, 28672, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.training.seq = 8192, problem.training.global_batch = 1024;
  problem.gpus = 296;
  const auto plan = search(problem);
  REQUIRE(plan.has_value());
  CHECK(plan->idle_gpus == 296 - plan->problem.gpus);
  CHECK(plan->idle_gpus > 0);
  CHECK(plan->best.layout.world() == plan->problem.gpus);
  CHECK(std::any_of(plan->notes.begin(), plan->notes.end(), [](const Note& note) { return note.code == "gpus_idle"; }));
  problem.gpus = 256;
  const auto fewer = search(problem);
  REQUIRE(fewer.has_value());
  CHECK(fewer->idle_gpus == 0);
  CHECK(plan->fastest->step_time <= 1.03 * fewer->fastest->step_time);
}

TEST_CASE("fewer GPUs answer better with the host's memory and with other frameworks, too") {
  std::mt19937 random(20261201);
  int host = 0, others = 0;
  for (int i = 0; i < oracle::rounds(25); ++i) {
    Problem problem = free_problem(random);
    problem.cluster.gpus_per_node = 4, problem.cluster.tiers.front().size = 4;
    problem.cluster.gpu.host_link = BytesPerSecond(55e9);
    problem.cluster.gpu.memory = round_bytes((1 + static_cast<double>(random() % 16)) * kGiB);
    problem.free_switches = kSwitchGraphs | kSwitchOptimizer | kSwitchActivations;
    problem.framework = i % 2 == 0 ? Framework::Megatron : Framework::Any;
    if (problem.framework == Framework::Any)
      problem.training.stack = stack_on(framework_row(Framework::Any), problem.cluster.gpu);
    problem.training.global_batch = 1 << (3 + random() % 4);
    RunnableSearch best;
    for (int gpus = 9; gpus <= 19; ++gpus) {
      const RunnableSearch alone = find_runnable(on(problem, gpus));
      if (ready(alone) == Ready::Yes && (ready(best) != Ready::Yes || fastest(alone.result) < fastest(best.result)))
        best = alone;
      if (ready(best) != Ready::Yes) continue;
      CAPTURE(i);
      CAPTURE(gpus);
      const RunnableSearch found = find_on_at_most(on(problem, gpus));
      CHECK(ready(found) == Ready::Yes);
      CHECK(fastest(found.result) <= 1.1 * fastest(best.result));
      if (found.problem.gpus == gpus) continue;
      host += (found.result.recommended->switched & kHostSwitches) != 0;
      others += found.problem.framework != problem.framework;
    }
  }
  CHECK(host >= oracle::at_least(2));
  CHECK(others >= oracle::at_least(1));
}

TEST_CASE("several nodes are cut where whole ones leave more GPUs waiting") {
  for (const auto& [layers, all, used] : {std::tuple(62, 55, 52), {62, 53, 52}}) {
    const int depth = layers, gpus = all;
    Problem problem;
    problem.model = oracle::dense_model(depth, 4096, 32, 8, 14336, 128256);
    problem.cluster = oracle::plain_cluster();
    problem.training.seq = 8192, problem.training.global_batch = 1024;
    CAPTURE(depth);
    CHECK(find_on_at_most(on(problem, gpus)).problem.gpus == used);
  }
}

TEST_CASE("numbers that more twos divide are the largest of each power") {
  Problem problem;
  for (int gpus = 1; gpus <= 300; ++gpus) {
    problem.gpus = gpus;
    std::vector<int> expected;
    for (int twos = 256; twos > 1; twos /= 2) {
      if (gpus % twos == 0) break;
      const int number = gpus / twos * twos;
      if (number > 0 && std::ranges::count(expected, number) == 0 && expected.size() < 3) expected.push_back(number);
    }
    CAPTURE(gpus);
    CHECK(fewer_with_more_twos(problem) == expected);
  }
}

TEST_CASE("numbers of GPUs that the batch splits into more replicas, the few with the most") {
  Problem problem;
  problem.cluster = oracle::plain_cluster();
  const auto expect = [&](int gpus, std::int64_t batch, const std::vector<int>& numbers) {
    problem.gpus = gpus, problem.training.global_batch = batch;
    CHECK(fewer_with_more_replicas(problem) == numbers);
  };
  expect(96, 60, {90, 60});
  expect(80, 250, {75, 50});
  expect(64, 1024, {}), expect(2, 7, {});
  // After 36, 35 and 32, which are split into four, five and eight; before 20, in case nothing runs on 25.
  expect(37, 1000, {30, 25, 20});
}

TEST_CASE("where the batch divides no layout of all GPUs, a few idle and not most of them") {
  Problem problem;
  problem.model = oracle::dense_model(30, 4096, 32, 8, 14336, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.training.seq = 8192, problem.training.global_batch = 2047;  // 23 * 89
  problem.gpus = 16384;
  CHECK(fewer_with_more_replicas(problem) == std::vector<int>{16376});
  const RunnableSearch found = find_on_at_most(problem);
  CHECK(ready(found) == Ready::Yes);
  CHECK(found.problem.gpus == 16376);
}

TEST_CASE("a named framework that runs nothing on all GPUs is given half of them, and half again") {
  std::mt19937 random(20261202);
  int halved = 0;
  for (int i = 0; i < oracle::rounds(20); ++i) {
    Problem problem = free_problem(random);
    problem.framework = Framework::DeepSpeed;
    problem.training.stack = stack_on(framework_row(Framework::DeepSpeed), problem.cluster.gpu);
    problem.training.global_batch = 1 << (random() % 3);
    problem.gpus = 1 << (8 + random() % 6);
    bool runs = false;
    for (int gpus = problem.gpus; gpus > 0; gpus /= 2) runs |= ready(find_runnable(on(problem, gpus))) == Ready::Yes;
    const RunnableSearch found = find_on_at_most(problem);
    CAPTURE(i);
    CHECK((ready(found) == Ready::Yes) == runs);
    halved += found.problem.gpus < problem.gpus;
  }
  CHECK(halved >= oracle::at_least(5));
}

TEST_CASE("nothing is looked for where all GPUs can be busy") {
  Problem problem;
  problem.model = oracle::dense_model(80, 8192, 64, 8, 28672, 128256);
  problem.cluster = oracle::plain_cluster();
  problem.training.seq = 8192, problem.training.global_batch = 1024;
  for (const int gpus : {1, 8, 64, 512, 16384})
    CHECK(fewer_but_busier(on(problem, gpus), busy_gpus(problem, gpus), 3).empty());
  CHECK(busy_gpus(problem, 1009) == 0);
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

TEST_CASE("numbers of GPUs that are busier are all weighed: against every number below, sorted") {
  std::mt19937 random(14);
  int found_some = 0, one_gpu = 0;
  for (int round = 0; round < 400; ++round) {
    Problem problem = free_problem(random);
    problem.cluster.gpus_per_node = 1 << (random() % 4);
    problem.gpus = 2 + static_cast<int>(random() % (round % 2 == 0 ? 6 : 60));
    const double busy = round % 3 == 0 ? 0 : 0.7 * problem.gpus;
    const std::size_t most = 1 + random() % 4;
    CAPTURE(problem.gpus);
    CAPTURE(problem.cluster.gpus_per_node);
    std::vector<int> expected;
    if (!divides_well(problem, problem.gpus)) {
      const int node = problem.cluster.gpus_per_node, unit = problem.gpus >= 4 * node ? node : 1;
      for (int gpus = problem.gpus - 1; gpus > 0 && expected.empty(); --gpus)
        if (gpus % unit == 0 && divides_well(problem, gpus)) expected.push_back(gpus);
      double whole = busy;
      const auto add = [&](int multiple, double least, std::size_t so_many) {
        std::vector<int> others;
        for (int gpus = problem.gpus - 1; gpus > 0; --gpus)
          if (gpus % multiple == 0 && busy_gpus(problem, gpus) > least) others.push_back(gpus);
        std::ranges::stable_sort(others, std::greater{}, [&](int gpus) { return busy_gpus(problem, gpus); });
        if (others.size() > so_many) others.resize(so_many);
        for (const int gpus : others) {
          whole = std::max(whole, busy_gpus(problem, gpus));
          if (std::ranges::count(expected, gpus) == 0) expected.push_back(gpus);
        }
      };
      add(unit, busy, most);
      if (unit > 1 && problem.gpus < 64 * node) add(1, whole, 2);
    }
    CHECK(fewer_but_busier(problem, busy, most) == expected);
    found_some += expected.size() > 1 ? 1 : 0;
    one_gpu += std::ranges::count(expected, 1) > 0 ? 1 : 0;
  }
  CHECK(found_some > 50);
  CHECK(one_gpu > 5);
}

TEST_CASE("adapters under FSDP alone are given or told a number of GPUs that has a sequence for each") {
  for (const int gpus : {9, 12, 100, 125, 128, 1000, 1009}) {
    Problem problem;
    problem.model = oracle::dense_model(8, 2048, 16, 16, 8192, 32000);
    problem.cluster = oracle::plain_cluster();
    problem.framework = Framework::Torchtitan;
    problem.training.stack = stack_on(framework_row(Framework::Torchtitan), problem.cluster.gpu);
    problem.training.task = Task::Lora;
    problem.training.seq = 2048, problem.training.global_batch = 8;
    problem.gpus = gpus;
    const auto plan = search(problem);
    CAPTURE(gpus);
    if (plan) {  // nearly all of them have work
      CHECK(plan->problem.gpus == 8);
      continue;
    }
    const std::vector<Change>& changes = plan.error().front().changes;
    CHECK(std::any_of(changes.begin(), changes.end(), [](const Change& change) { return change.flags == "--gpus 8"; }));
  }
}

TEST_CASE("who asks for the number of GPUs that an answer uses gets the same answer") {
  std::mt19937 random(20261128);
  int fewer = 0;
  for (int i = 0; i < oracle::rounds(40); ++i) {
    Problem problem = free_problem(random);
    problem.gpus = 9 + static_cast<int>(random() % 40);
    const RunnableSearch found = find_on_at_most(problem);
    if (found.result.ranking.best().empty() || found.problem.gpus == problem.gpus) continue;
    CAPTURE(i);
    CAPTURE(problem.gpus);
    const RunnableSearch same = find_on_at_most(on(problem, found.problem.gpus));
    CHECK(same.problem.gpus == found.problem.gpus);
    CHECK(fastest(same.result) == fastest(found.result));
    REQUIRE(same.result.recommended.has_value());
    CHECK(same.result.recommended->layout == found.result.recommended->layout);
    ++fewer;
  }
  CHECK(fewer >= oracle::at_least(8));
}

TEST_CASE("GPUs stay idle where no framework runs a layout on all of them and one runs a layout on fewer") {
  std::mt19937 random(20261130);
  int idle = 0, paper = 0;
  for (int i = 0; i < oracle::rounds(60); ++i) {
    Problem problem = free_problem(random);
    problem.framework = Framework::Any;
    problem.training.stack = stack_on(framework_row(Framework::Any), problem.cluster.gpu);
    problem.model.embedding_norm = true;  // Megatron and torchtitan build no such model; others divide the batch alone
    problem.training.global_batch = 1 << (random() % 6);
    problem.gpus = i % 2 == 0 ? 1 << (2 + random() % 5) : 3 + static_cast<int>(random() % 30);
    const RunnableSearch found = find_on_at_most(problem);
    if (found.result.ranking.best().empty()) continue;
    CAPTURE(i);
    CAPTURE(problem.gpus);
    const RunnableSearch all = find_runnable(problem);
    paper += all.nothing_runs ? 1 : 0;
    if (!all.nothing_runs) continue;
    const bool fewer_run = divides_well(problem, problem.gpus)
                               ? ready(find_runnable(on(problem, problem.gpus / 2))) == Ready::Yes
                               : ready(find_runnable(on(problem, 2))) == Ready::Yes;
    if (found.nothing_runs) {
      CHECK_FALSE(fewer_run);
      continue;
    }
    CHECK(found.problem.gpus < problem.gpus);
    CHECK(ready(found) == Ready::Yes);
    CHECK(found.all_ready <= Ready::Paper);
    CHECK(find_on_at_most(on(problem, found.problem.gpus)).problem.gpus == found.problem.gpus);
    ++idle;
    const auto plan = search(problem);
    REQUIRE(plan.has_value());
    CHECK_FALSE(plan->runs_on.empty());
    CHECK(std::any_of(plan->notes.begin(), plan->notes.end(), [](const Note& note) {
      return note.code == "gpus_idle" && note.text.find("that a framework runs") != std::string::npos;
    }));
  }
  CAPTURE(paper);
  CHECK(idle >= oracle::at_least(4));
}

TEST_CASE("what fits some GPUs is found on one more, which divides badly and holds no layout that fits") {
  std::mt19937 random(20261129);
  int kept = 0;
  for (int i = 0; i < oracle::rounds(60); ++i) {
    Problem problem = free_problem(random);
    problem.gpus = 8, problem.training.global_batch = 64;
    SearchResult even{};
    for (double gib = 0.1; gib < 80 && (even.ranking.best().empty() || even.at_risk); gib *= 1.1) {  // just enough
      problem.cluster.gpu.memory = round_bytes(gib * kGiB);
      even = find_layouts(problem);
    }
    const SearchResult odd = find_layouts(on(problem, 9));
    if (even.ranking.best().empty() || even.at_risk || !odd.ranking.best().empty()) continue;
    const RunnableSearch found = find_on_at_most(on(problem, 9));
    CAPTURE(i);
    REQUIRE_FALSE(found.result.ranking.best().empty());
    CHECK(found.problem.gpus <= 8);
    kept += odd.stats.legal > 0;
  }
  CHECK(kept >= oracle::at_least(1));
}
