// Activations between layers of one stage that are split in different ways. Tested by
// tests/planner/layer_runs_test.cpp.
#include "planner/resharding.hpp"

#include "formulas/communication.hpp"
#include "formulas/efficiency.hpp"

namespace plan {
namespace {

std::vector<ReshardingGather> gathers(const Problem& problem, const Layout& from, const Layout& to) {
  const Cluster& cluster = problem.cluster;
  const bool shares = from.sequence_parallel || to.sequence_parallel;
  std::vector<ReshardingGather> all;
  const auto add = [&](Group group, double sequences) {
    if (group.size <= 1) return;
    const double tokens = static_cast<double>(problem.training.seq) * sequences / (shares ? 1 : from.cp);
    const double bytes = hidden_bytes(tokens, problem.model.hidden).value;
    const bool inside = group.inside(cluster.scale_up_size()) == group.size;
    const double scale = inside ? cluster.calibration.scale_up : cluster.calibration.scale_out;
    all.push_back({group, bytes, collective_time(cluster, Collective::AllGather, bytes, group).value / scale});
  };
  const int replica = from.tp * from.cp;
  if (shares) add({replica, 1}, from.micro_batch);
  if (to.micro_batch > from.micro_batch) add({to.micro_batch / from.micro_batch, replica}, to.micro_batch);
  return all;
}

}  // namespace

Resharding resharding(const Problem& problem, const Layout& before, const Layout& behind) {
  if (before.tp == behind.tp && before.cp == behind.cp) return {};
  return {gathers(problem, before, behind), gathers(problem, behind, before)};
}

GatherSum total_of(const std::vector<ReshardingGather>& gathers) {
  GatherSum sum;
  for (const ReshardingGather& gather : gathers) sum.seconds += gather.seconds, sum.bytes += gather.bytes;
  return sum;
}

}  // namespace plan
