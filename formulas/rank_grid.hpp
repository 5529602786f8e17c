#pragma once

// Where the ranks of a layout are: the one place that says how far the members of each group are apart.
//
// Rank r runs on GPU r, and a tier of T GPUs holds the ranks k T to (k + 1) T - 1. The axes number the ranks, the
// fastest first:
//   dense    rank = tp + TP (cp + CP (dp + DP pp))     tp-cp-ep-dp-pp, the pipeline outermost
//            rank = tp + TP (cp + CP (pp + PP dp))     tp-cp-ep-pp-dp, data parallelism outermost
//   experts  the same with etp, ep and their copies in the place of tp, cp and dp
// Source: RankGenerator in megatron/core/parallel_state.py; plan-launch(7), rank order.
// Tested by tests/formulas/rank_grid_test.cpp.

#include <cstdint>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/layout.hpp"

namespace plan {

// Groups inside the block that no order divides: the same for every layout of a split. `world`: ranks of the job.
[[nodiscard]] constexpr Group tensor_group(int tp, int world = 0) { return {.size = tp, .world = world}; }
/// `size` context ranks, every `step`-th of them.
[[nodiscard]] constexpr Group context_group(int size, int tp, int step = 1, int world = 0) {
  return {.size = size, .stride = tp * step, .world = world};
}
/// `etp` ranks that split one expert.
[[nodiscard]] constexpr Group expert_tensor_group(int etp, int world = 0) { return {.size = etp, .world = world}; }
/// `ep` ranks that hold different experts, each in `etp` parts.
[[nodiscard]] constexpr Group expert_group(int ep, int etp, int world = 0) {
  return {.size = ep, .stride = etp, .world = world};
}

/// Ranks that hold the same parameters, in rank order: `rows` rows of `row` ranks that are `stride` apart, the rows
/// `pitch` apart.
struct Replicas {
  int row = 1, stride = 1;
  int rows = 1, pitch = 1;
  int size() const { return row * rows; }
  /// `count` of them, every `step`-th. Where that cuts a row anywhere but into equal parts, the rows of the group count
  /// as evenly spread.
  [[nodiscard]] Group some(int count, int step = 1) const;
};

/// A rank's place on the axes of the dense grid.
struct RankPlace {
  int tp = 0, cp = 0, dp = 0, pp = 0;
};

/// The grid of one layout. The layout must be legal: with the data outermost, etp * ep is tp * cp.
class RankGrid {
 public:
  explicit RankGrid(const Layout& layout);

  /// Ranks from a rank to the one at its place in the next stage, and of the block that one pipeline and what lies
  /// inside it take.
  int stage_stride() const { return stage_stride_; }
  int pipeline_span() const { return stage_stride_ * pp_; }
  [[nodiscard]] RankPlace place(int rank) const;
  /// Ranks that hold the same dense parameters, those of context parallelism first; and the same experts.
  const Replicas& dense() const { return dense_; }
  const Replicas& expert() const { return expert_; }
  /// One rank of every stage; the same place in the first and the last of them.
  Group stages() const { return {pp_, stage_stride_}; }
  /// All ranks of one stage.
  [[nodiscard]] Group stage() const;
  Group both_ends() const { return {2, 1, pipeline_span(), 1}; }
  /// A group of replicas together with those at their places in the stage at the other end of the pipeline, where both
  /// directions of DualPipe meet: the farthest of the pairs are its two ends.
  [[nodiscard]] Group with_opposite(Group group) const;
  /// Is some rank of stage `a` in another instance of a tier than the rank at its place in stage `b`?
  [[nodiscard]] bool crosses(int tier_size, int a, int b) const;

 private:
  int tp_, cp_, dp_, pp_, world_, stage_stride_;
  Replicas dense_{}, expert_{};
};

/// By stage, the tier that the slowest hand-over to the next stage crosses, counted from the innermost; that of the
/// last stage is back to the first, as interleaved chunks go. One entry a stage.
[[nodiscard]] std::vector<std::size_t> hop_tiers(const Cluster& cluster, const Layout& layout);

/// Can the cluster tell the orders of a layout's axes apart? A tier must be larger than the block of tp and cp, which
/// stays together under both, and smaller than the job.
[[nodiscard]] bool order_matters(const Cluster& cluster, const Layout& layout);

}  // namespace plan
