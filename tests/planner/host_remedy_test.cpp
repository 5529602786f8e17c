// A job that its hosts are too small for is told what they lack, and what it is told to do works.
#include "planner/choice/host_remedy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "planner/choice/nearest.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"
#include "small_job.hpp"

namespace {

using namespace plan;

/// Too big for its GPUs unless something lies on the hosts.
Problem too_big(Framework framework) {
  Problem problem = small::small_job();
  problem.model = oracle::dense_model(24, 4096, 32, 8, 14336, 32000);
  problem.training.task = Task::FullFinetune;
  problem.framework = framework;
  if (framework != Framework::Any) problem.training.stack = stack_on(framework_row(framework), problem.cluster.gpu);
  problem.cluster.gpu.vendor = "nvidia";
  problem.cluster.gpu.memory = Bytes(static_cast<std::int64_t>(11 * kGiB));
  problem.cluster.gpu.host_link = BytesPerSecond(55e9);
  problem.free_switches = kHostSwitches;
  return problem;
}

std::string all_of(const Error& error) {
  std::string text = error.message;
  for (const std::vector<std::string>* lines : {&error.facts, &error.help})
    for (const std::string& line : *lines) text += "\n" + line;
  return text;
}

TEST_CASE("hosts that are too small are named with what they would need, and with as much the job fits") {
  int told = 0;
  for (const Framework framework :
       {Framework::Any, Framework::Megatron, Framework::Torchtitan, Framework::DeepSpeed, Framework::Accelerate}) {
    CAPTURE(framework_row(framework).name);
    Problem problem = too_big(framework);
    const Result<Plan> roomy = search(problem);
    if (!roomy || !roomy->problem.training.offload.any()) continue;  // such a framework leaves nothing there
    const Bytes need = roomy->best.host;
    for (const double share : {0.05, 0.2, 0.6}) {
      CAPTURE(share);
      problem.cluster.host_memory = Bytes(static_cast<std::int64_t>(share * static_cast<double>(need.value)));
      const Result<Plan> tight = search(problem);
      if (tight) {
        CHECK(tight->best.host <= kHostShare * RealBytes(problem.cluster.host_memory));
        continue;
      }
      ++told;
      const std::string text = all_of(tight.error().front());
      CAPTURE(text);
      CHECK(text.find("leaves ") != std::string::npos);
      CHECK(text.find("in each node's memory") != std::string::npos);
      const std::optional<RoomierHosts> roomier = with_roomier_hosts(problem);
      REQUIRE(roomier);
      CHECK(roomier->change.flag.find("--host-memory ") != std::string::npos);
      CHECK(roomier->need <= kHostShare * RealBytes(roomier->change.problem.cluster.host_memory));
      CHECK(RealBytes(problem.cluster.host_memory) * kHostShare < RealBytes(roomier->need));
      const Result<Plan> cured = search(roomier->change.problem);
      REQUIRE(cured);
      CHECK(cured->best.fits == Fits::Yes);
    }
  }
  CHECK(told >= 4);
}

TEST_CASE("a plan that may not fit names the nodes on which it would") {
  Problem problem = too_big(Framework::Megatron);
  const Result<Plan> roomy = search(problem);
  REQUIRE(roomy);
  REQUIRE(roomy->best.host.value > 0);
  problem.cluster.host_memory = Bytes(roomy->best.host.value / 20);
  int told = 0;
  for (double gib = 11; gib < 40; gib *= 1.06) {  // from too small to large enough without the hosts
    problem.cluster.gpu.memory = Bytes(static_cast<std::int64_t>(gib * kGiB));
    const Result<Plan> plan = search(problem);
    if (!plan) continue;
    const bool noted = std::any_of(plan->notes.begin(), plan->notes.end(),
                                   [](const Note& note) { return note.code == "other_hosts"; });
    if (plan->best.fits == Fits::Yes) CHECK_FALSE(noted);
    if (noted) CHECK(search(with_roomier_hosts(problem)->change.problem)->best.fits == Fits::Yes);
    told += noted ? 1 : 0;
  }
  CHECK(told > 0);
}

TEST_CASE("hosts are not blamed where nobody knows them, where nothing may lie there, or where GPUs are too small") {
  Problem problem = too_big(Framework::Megatron);
  CHECK_FALSE(with_roomier_hosts(problem));
  problem.cluster.host_memory = Bytes(1'000'000'000);
  CHECK(with_roomier_hosts(problem));
  Problem kept = problem;
  kept.free_switches = 0;
  CHECK_FALSE(with_roomier_hosts(kept));
  problem.cluster.gpu.memory = Bytes(1'000'000'000);
  CHECK_FALSE(with_roomier_hosts(problem));
}

TEST_CASE("a search leaves no more on hosts that nobody knows than a server has, a stated word anything") {
  Problem problem = too_big(Framework::Any);
  CHECK(usable_host(problem, false) == RealBytes::infinity());
  problem.switched = kSwitchGraphs;
  CHECK(usable_host(problem, false) == RealBytes::infinity());
  for (const SwitchMask one : {kSwitchOptimizer, kSwitchActivations, kSwitchWeights}) {
    problem.switched = one;
    CHECK(usable_host(problem, false) == RealBytes(kHostShare * kMostUnstatedHost));
    CHECK(usable_host(problem, true) == RealBytes(kMostUnstatedHost));
  }
}

}  // namespace
