// What nodes with more memory would do for a job that does not fit. Tested by tests/planner/host_remedy_test.cpp.
#include "planner/choice/host_remedy.hpp"
#include "planner/answer/switch_words.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "planner/choice/choice.hpp"
#include "planner/choice/nearest.hpp"
#include "planner/memory/host_memory.hpp"

namespace plan {
namespace {

/// What fits for certain on nodes with so much memory each; not stated: with any.
std::optional<RunnableSearch> fitting(Problem problem, Bytes memory) {
  problem.cluster.host_memory = memory;
  problem.top = 1, problem.pareto = false;
  RunnableSearch found = find_runnable(problem, {.best_alone = true});
  if (found.result.ranking.best().empty() || found.result.at_risk || found.nothing_runs) return std::nullopt;
  return found;
}

}  // namespace

std::optional<RoomierHosts> with_roomier_hosts(const Problem& problem) {
  const Bytes has = problem.cluster.host_memory;
  const bool stated = problem.training.offload.any();
  if (has.value <= 0 || (!stated && (problem.free_switches & kHostSwitches) == 0)) return std::nullopt;
  std::optional<RunnableSearch> found = fitting(problem, Bytes());
  if (!found) return std::nullopt;
  const auto need = [&] { return estimate(found->problem, found->result.ranking.best().front()).host; };
  // The fastest layout of any leaves much there. Of nodes that double, the first that hold one are no more than twice
  // as large as they have to be.
  for (Bytes memory(2 * has.value); memory < need(); memory = Bytes(2 * memory.value))
    if (std::optional<RunnableSearch> smaller = fitting(problem, memory)) {
      found = std::move(smaller);
      break;
    }
  const Candidate& best = found->result.ranking.best().front();
  RoomierHosts roomier;
  roomier.need = need(), roomier.degrees = degrees_text(best.layout);
  const auto whole = static_cast<std::int64_t>(std::ceil(static_cast<double>(roomier.need.value) / kHostShare / kGiB));
  const Problem switched = with_switches(found->problem, best.switched);
  if (!stated)
    for (const std::string& word : switch_words(switched))
      if (word.starts_with("--offload")) roomier.offload = word;
  roomier.change.flag =
      fmt::format("{}{}--host-memory {}GiB", roomier.offload, roomier.offload.empty() ? "" : " ", whole);
  roomier.change.problem = problem;
  roomier.change.problem.training.offload = switched.training.offload;
  roomier.change.problem.cluster.host_memory = Bytes(static_cast<std::int64_t>(static_cast<double>(whole) * kGiB));
  return roomier;
}

void blame_hosts(Error& error, const Problem& problem, const RoomierHosts& roomier) {
  const std::string has =
      fmt::format("{} has {}", problem.cluster.name, gib_text(RealBytes(problem.cluster.host_memory)));
  const std::string share = fmt::format("a plan may fill {:.0f} % of a node's memory", 100 * kHostShare);
  if (!roomier.offload.empty()) {
    error.facts.push_back(fmt::format("`{}` fits the GPUs and leaves {} in each node's memory; {}, and {}",
                                      roomier.offload, gib_text(RealBytes(roomier.need)), has, share));
    return;
  }
  error.message = fmt::format("no layout fits the hosts: one that fits the GPUs leaves {} in each node's memory; {}",
                              gib_text(RealBytes(roomier.need)), has);
  error.facts.push_back(fmt::format("that is {}; {}", roomier.degrees, share));
}

}  // namespace plan
