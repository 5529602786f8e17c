#pragma once

#include <string_view>
#include <vector>

#include "formulas/layout.hpp"
#include "formulas/nccl_buffers.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// One all-gather of a resharding.
struct ReshardingGather {
  std::string_view what{};  ///< which of the ranks' groups it is, for a communicator serves one use
  Group group{};
  RealBytes bytes{};  ///< of what is gathered
  Seconds time{};
};

/// Between two runs of layers of one stage that differ in tp or cp, for one micro-batch. What is not gathered is cut
/// out of what a rank has: no message.
struct Resharding {
  std::vector<ReshardingGather> forward{}, backward{};
  bool any() const { return !forward.empty() || !backward.empty(); }
};

/// The activation that leaves the layers of one layout and enters those of the other. With s tokens a sequence, b and
/// b' sequences in a micro-batch of a replica of tp c ranks before and behind, under sequence parallelism
///   all ranks of a replica gather the sequence           all-gather of 2 b s h over tp c
///   b' > b: ranks of the b' / b replicas that become one  all-gather of 2 b' s h over b' / b ranks, tp c apart
/// and each rank keeps its part of it; without, the first is over the c context ranks, and left out if both sides have
/// as many. The gradient goes the same way from b' to b. Ulysses leaves each rank the part of the sequence that
/// sequence parallelism over as many tensor ranks does: nothing moves between the two.
///   source   Hetu-Galvatron, galvatron/core/runtime/redistribute.py
///            (_fused_split_allgather_along_first_dim_with_sequence_parallel), comm_groups.py (Step 4)
[[nodiscard]] Resharding resharding(const Problem& problem, const Layout& before, const Layout& behind);

/// The groups of both directions, one for each gather.
[[nodiscard]] std::vector<GatheringGroup> groups_of(const Resharding& resharding);

/// Time and bytes of all gathers of one direction.
struct GatherSum {
  Seconds time{};
  RealBytes bytes{};
};
[[nodiscard]] GatherSum total_of(const std::vector<ReshardingGather>& gathers);

}  // namespace plan
