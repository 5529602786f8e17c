// Memory of the hosts: what the ranks of one node leave there together. Tested by tests/planner/host_memory_test.cpp.
#include "planner/memory/host_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "formulas/rank_grid.hpp"

namespace plan {

RealBytes usable_host(const Problem& problem, bool at_risk) {
  RealBytes memory(problem.cluster.host_memory);
  const bool known = memory > RealBytes();
  if (!known && (problem.switched & kHostSwitches) == 0) return RealBytes::infinity();
  if (!known) memory = RealBytes(kMostUnstatedHost);
  return at_risk || problem.headroom.accept_risk ? memory : kHostShare * memory;
}

const Input* assumed_hosts(const Problem& problem) {
  const Input* said = find_input(problem.inputs, "host_memory");
  return said != nullptr && said->origin == Origin::Preset ? said : nullptr;
}

Cluster with_stated_hosts(Cluster cluster, const Problem& problem) {
  const Input* said = find_input(problem.inputs, "host_memory");
  if (said != nullptr && said->origin != Origin::Preset) cluster.host_memory = problem.cluster.host_memory;
  return cluster;
}

Fits fits_host(Bytes need, Bytes capacity) {
  if (capacity.value <= 0 || need <= kHostShare * RealBytes(capacity)) return Fits::Yes;
  return need <= capacity ? Fits::AtRisk : Fits::No;
}

Fits fits_gpu(const Estimate& estimate) {
  if (fits_host(estimate.host, estimate.host_capacity) < estimate.fits) return estimate.fits;
  if (estimate.peak_high <= estimate.capacity) return Fits::Yes;
  return estimate.peak_low <= estimate.capacity ? Fits::AtRisk : Fits::No;
}

namespace {

std::vector<Note> notes_of_need(const Problem& problem, const Estimate& estimate) {
  const auto gib = [](Bytes bytes) { return fmt::format("{:.0f} GiB", static_cast<double>(bytes.value) / kGiB); };
  const std::string need = gib(estimate.host), has = gib(estimate.host_capacity);
  if (estimate.host_capacity.value <= 0)
    return {
        {"host_memory_unknown",
         fmt::format("{} of each node's memory are needed, and {} does not state what they have: `--host-memory` does",
                     need, problem.cluster.name)}};
  const Fits fits = fits_host(estimate.host, estimate.host_capacity);
  if (fits == Fits::Yes) return {};
  const bool states = problem.training.offload.optimizer > 0 || problem.training.offload.parameters;
  const std::string remedy = fmt::format(
      "leave less there with `--offload`{}",
      states ? ", or let more nodes share it: more `--gpus`, and states that are sharded over all of them" : "");
  if (fits == Fits::AtRisk)
    return {{"host_memory_at_risk",
             fmt::format("{} of each node's {} are needed, and what else runs there wants a tenth: {}", need, has,
                         remedy)}};
  return {{"host_memory_short",
           fmt::format("does not fit the host: each node needs {} of its memory and has {}: {}", need, has, remedy)}};
}

}  // namespace

std::vector<Note> host_notes(const Problem& problem, const Estimate& estimate) {
  if (estimate.host.value <= 0) return {};
  std::vector<Note> notes = notes_of_need(problem, estimate);
  if (const Input* said = assumed_hosts(problem))
    notes.push_back({"host_memory_assumed", fmt::format("nodes are taken to have {} of memory, as {} has: "
                                                        "`--host-memory` states another amount",
                                                        said->value, said->where)});
  return notes;
}

RealBytes host_of_node(const Cluster& cluster, const Layout& layout, std::span<const RealBytes> of_stage) {
  const auto stages = static_cast<std::int64_t>(of_stage.size());
  const std::int64_t world = layout.world(), stride = RankGrid(layout).stage_stride();
  const std::int64_t ranks = std::min<std::int64_t>(std::max(cluster.gpus_per_node, 1), world);
  // A node is part of one stage.
  if (stride % ranks == 0) return static_cast<double>(ranks) * *std::max_element(of_stage.begin(), of_stage.end());
  RealBytes most;
  const std::int64_t different = std::min(world, std::lcm(ranks, stride * stages));  // then nodes repeat
  for (std::int64_t first = 0; first < different; first += ranks) {
    RealBytes sum;
    for (std::int64_t rank = first; rank < std::min(first + ranks, world); ++rank)
      sum += of_stage[static_cast<std::size_t>(rank / stride % stages)];
    most = std::max(most, sum);
  }
  return most;
}

RealBytes host_of_node(const Cluster& cluster, const Layout& layout, std::span<const StageMemory> stages) {
  std::vector<RealBytes> of_stage;
  for (const StageMemory& stage : stages) of_stage.push_back(RealBytes(stage.host));
  return host_of_node(cluster, layout, of_stage);
}

}  // namespace plan
