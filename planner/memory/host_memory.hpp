#pragma once

#include <span>
#include <vector>

#include "formulas/real_bytes.hpp"
#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Share of a node's memory that a plan may fill with certainty. The operating system, its file cache, and Python and
/// the data loader of every rank need the rest. Nobody states how much: a tenth of 2 TiB is 25 GiB for each of 8 ranks.
inline constexpr double kHostShare = 0.9;

/// Bytes of a node that states no memory, as far as a search may turn on what needs them: no server that GPUs are sold
/// in holds more (NVIDIA DGX B200 user guide: 2 TB, and up to 4 TB as an option).
inline constexpr double kMostUnstatedHost = 4 * kTiB;

/// Switches that leave something there.
inline constexpr SwitchMask kHostSwitches = kSwitchOptimizer | kSwitchActivations | kSwitchWeights;

/// The memory of nodes of which only the kind of GPU is stated, taken from a cluster preset; null if somebody states it
/// or nothing does.
[[nodiscard]] const Input* assumed_hosts(const Problem& problem);

/// What a plan may leave in the memory of one node; where the cluster does not state how much it has, infinity, or what
/// any server has if a search chose to leave something there. At risk all of it.
[[nodiscard]] RealBytes usable_host(const Problem& problem, bool at_risk);

/// What the ranks of one node keep in its memory together, of the node where that is most: ranks are numbered as
/// formulas/rank_grid.hpp says, and neighbours share a node. `of_stage`: of one rank, by its stage.
[[nodiscard]] RealBytes host_of_node(const Cluster& cluster, const Layout& layout, std::span<const RealBytes> of_stage);
[[nodiscard]] RealBytes host_of_node(const Cluster& cluster, const Layout& layout, std::span<const StageMemory> stages);

/// A cluster that is tried in place of the problem's: the memory of nodes that somebody stated holds there too.
[[nodiscard]] Cluster with_stated_hosts(Cluster cluster, const Problem& problem);

/// Does a node with so much memory hold that? Yes where it is not known how much it has.
[[nodiscard]] Fits fits_host(Bytes need, Bytes capacity);
/// Whether the peak fits the GPU, whatever is left in host memory: as far as the figures alone say it.
[[nodiscard]] Fits fits_gpu(const Estimate& estimate);

/// What a reader must know of it: how much a node needs where its memory is not known, and how far it is over.
[[nodiscard]] std::vector<Note> host_notes(const Problem& problem, const Estimate& estimate);

}  // namespace plan
