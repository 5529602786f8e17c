// Activations between layers of one stage that are split in different ways. Tested by
// tests/planner/layer_runs_test.cpp.
#include "planner/cost/resharding.hpp"

#include "formulas/communication.hpp"
#include "formulas/kernel_laws.hpp"

namespace plan {
namespace {

/// Does each rank hold the same tokens of the same sequences on both sides?
bool same_split(const Layout& before, const Layout& behind) {
  if (before.tp == behind.tp && before.cp == behind.cp) return true;
  const auto in_order = [](const Layout& l) {
    return (l.cp == 1 || l.cp_kind == CpKind::Ulysses) && (l.tp == 1 || l.sequence_parallel);
  };
  return before.tp * before.cp == behind.tp * behind.cp && in_order(before) && in_order(behind);
}

std::vector<ReshardingGather> gathers(const Problem& problem, const Layout& from, const Layout& to,
                                      std::string_view joined) {
  const Cluster& cluster = problem.cluster;
  const bool shares = from.sequence_parallel || to.sequence_parallel, whole = shares || from.cp != to.cp;
  std::vector<ReshardingGather> all;
  const auto add = [&](std::string_view what, Group group, double sequences) {
    if (group.size <= 1) return;
    const double tokens = static_cast<double>(problem.training.seq) * sequences / (whole ? 1 : from.cp);
    const RealBytes bytes = hidden_bytes(tokens, problem.model.hidden, problem.training.precision);
    all.push_back({what, group, bytes, collective_seconds<double>(cluster, Collective::AllGather, bytes, group)});
  };
  const int replica = from.tp * from.cp;
  if (whole) add("replica", shares ? Group{replica, 1} : Group{from.cp, from.tp}, from.micro_batch);
  if (to.micro_batch > from.micro_batch) add(joined, {to.micro_batch / from.micro_batch, replica}, to.micro_batch);
  return all;
}

}  // namespace

Resharding resharding(const Problem& problem, const Layout& before, const Layout& behind) {
  if (same_split(before, behind)) return {};
  return {gathers(problem, before, behind, "joined forward"), gathers(problem, behind, before, "joined backward")};
}

std::vector<GatheringGroup> groups_of(const Resharding& resharding) {
  std::vector<GatheringGroup> groups;
  for (const auto* gathers : {&resharding.forward, &resharding.backward})
    for (const ReshardingGather& gather : *gathers) groups.push_back({gather.what, gather.group});
  return groups;
}

GatherSum total_of(const std::vector<ReshardingGather>& gathers) {
  GatherSum sum;
  for (const ReshardingGather& gather : gathers) sum.time += gather.time, sum.bytes += gather.bytes;
  return sum;
}

}  // namespace plan
