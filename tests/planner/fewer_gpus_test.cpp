// More GPUs never train slower: what does not divide is left idle, and said.
#include "planner/choice/fewer_gpus.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "free_problem.hpp"
#include "oracle/random_problem.hpp"
#include "planner/choice/choice.hpp"
#include "planner/estimate/uncertainty.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"

using namespace plan;

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

TEST_CASE("near numbers are those down to half, by whole nodes where there are more than four") {
  for (const auto& [gpus, near] : std::map<int, std::vector<int>>{
           {1, {}}, {2, {1}}, {8, {7, 6, 5, 4}}, {9, {8, 7, 6, 5}}, {33, {32, 24}}, {67, {64, 56, 48, 40}}}) {
    Problem problem;
    problem.gpus = gpus, problem.cluster.gpus_per_node = 8;
    CHECK(near_below(problem) == near);
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

TEST_CASE("numbers that divide well are the largest below that no other has times a power of two") {
  std::mt19937 random(20261203);
  for (int i = 0; i < 400; ++i) {
    Problem problem;
    problem.gpus = 1 + static_cast<int>(random() % 400), problem.training.global_batch = 1 + random() % 300;
    std::vector<int> expected;
    for (int gpus = problem.gpus - 1; 2 * gpus > problem.gpus - 1 && expected.size() < 3; --gpus)
      if (divides_well(problem, gpus)) expected.push_back(gpus);
    CAPTURE(problem.gpus);
    CAPTURE(problem.training.global_batch);
    CHECK(fewer_that_divide(problem) == expected);
  }
}

TEST_CASE(
    "who splits the batch alone is given the number of GPUs that has the most replicas of those that divide well") {
  std::mt19937 random(20261204);
  int asked = 0;
  for (int i = 0; i < oracle::rounds(30); ++i) {
    Problem problem = free_problem(random);
    problem.framework = Framework::DeepSpeed;
    problem.training.stack = stack_on(framework_row(Framework::DeepSpeed), problem.cluster.gpu);
    problem.training.global_batch = 3 * (8 << (random() % 4));
    Seconds least;
    int best = 0;  // GPUs of that
    for (int gpus = 2; gpus < 300; gpus += 1 + static_cast<int>(random() % 40)) {
      problem.gpus = gpus;
      const RunnableSearch found = find_on_at_most(problem);
      if (ready(found) != Ready::Yes) continue;
      CAPTURE(i);
      CAPTURE(gpus);
      CAPTURE(problem.training.global_batch);
      CAPTURE(found.problem.gpus);
      CAPTURE(best);
      if (least > Seconds()) CHECK(fastest(found.result) <= 1.03 * least * (1 + 1e-9));
      ++asked;
      if (least > Seconds() && fastest(found.result) >= least) continue;
      least = fastest(found.result), best = found.problem.gpus;
    }
  }
  CHECK(asked >= oracle::at_least(50));
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

TEST_CASE("sixteen nodes are few, one GPU more is not, and a GPU in no node is a node") {
  Problem problem;
  for (const int each : {0, 1, 4, 8, 72}) {
    problem.cluster.gpus_per_node = each;
    problem.gpus = 16 * std::max(1, each);
    CHECK(few_nodes(problem));
    ++problem.gpus;
    CHECK_FALSE(few_nodes(problem));
  }
}
