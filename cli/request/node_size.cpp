// Nodes of another size than a preset has: four GPUs of eight, or sixteen. Tested by tests/cli/node_size_test.cpp.
#include "cli/request/node_size.hpp"

#include <fmt/core.h>

#include "cli/request/draft.hpp"

namespace plan {

Cluster with_node_of(Cluster cluster, int per_node) {
  const bool inside = !cluster.tiers.empty() && cluster.tiers.front().size == cluster.gpus_per_node;
  if (!inside || per_node <= 0 || per_node == cluster.gpus_per_node) return cluster;
  cluster.nics_per_node = cluster.nics_per_node == cluster.gpus_per_node ? per_node : cluster.nics_per_node;
  cluster.gpus_per_node = cluster.tiers.front().size = per_node;
  return cluster;
}

void resolve_nodes(Draft& draft) {
  Problem& problem = draft.problem;
  if (!draft.request.files || !draft.request.gpus || problem.cluster.tiers.empty()) return;
  const int own = problem.cluster.gpus_per_node, each = draft.request.files->gpus_per_node;
  const Input& gpus = draft.request.gpus->input;
  if (each <= 0 || each == own || problem.gpus <= std::min(each, own) || gpus.origin == Origin::Flag) return;
  if (problem.cluster.tiers.front().torus.any()) return;  // its slices are what chips share
  Cluster other = with_node_of(problem.cluster, each);
  if (other.gpus_per_node == own && each <= own) return;  // a domain wider than both
  const bool whole = other.tiers.size() < 2 || other.tiers[1].size % each == 0;
  if (draft.asked.find("cluster") != nullptr || draft.asked.find("profile") != nullptr || other.gpus_per_node == own ||
      !whole) {
    problem.unused.push_back({"not_used", fmt::format("{}: nodes of {} GPUs, priced as nodes of {} of {}", gpus.where,
                                                      each, own, problem.cluster.name)});
    return;
  }
  problem.cluster = std::move(other);
  problem.inputs.push_back({"gpus_per_node", fmt::format("{}", each), gpus.origin, gpus.where});
}

}  // namespace plan
