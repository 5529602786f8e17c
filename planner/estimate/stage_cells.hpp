#pragma once

// Pipelines whose stages differ in recomputation, offload, tensor parallelism or ZeRO, all on GPUs of one kind: each
// run of neighbouring stages that do the same is a cell with models of its own.
//
// Assumptions: every stage has as many GPUs and takes as many sequences at once, so that a stage with another tp has
// dp and micro_batch to match; a hand-over between stages of unequal tp moves what the wider of both sides sends, for
// all of it goes from rank to rank in any case.

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "planner/cost/cost.hpp"
#include "planner/estimate/evaluate.hpp"
#include "planner/memory/memory.hpp"
#include "planner/problem/problem.hpp"
#include "planner/problem/stage_layout.hpp"

namespace plan {

/// Costs and memory by what they depend on: computed once, shared by all layouts of a problem.
class StageModels {
 public:
  explicit StageModels(const Problem& problem) : whole_(problem) {}
  /// The runs of stages as the evaluator takes them, front to back. The layout has strategies for its stages.
  [[nodiscard]] std::vector<Cell> cells(const Layout& layout);
  /// Hand-overs between neighbouring stages.
  [[nodiscard]] Hops hops(const Layout& layout) const;
  const Problem& problem(int offload);
  /// `layout` is of one stage (layout_of_run()).
  const CostModel& costs(int offload, const Layout& layout);
  const MemoryModel& memory(int offload, const Layout& layout);

 private:
  const Problem& whole_;
  std::map<int, std::unique_ptr<Problem>> problems_{};  ///< by layers offloaded
  std::map<std::pair<int, Split>, std::unique_ptr<CostModel>> costs_{};
  /// How many layers are recomputed whole is asked of the layout each time.
  using MemoryKey = std::tuple<int, Split, int, RecomputeKind, int>;
  std::map<MemoryKey, std::unique_ptr<MemoryModel>> memory_{};
};

/// Memory, communication and time of a layout whose stages differ.
[[nodiscard]] Estimate estimate_stages(const Problem& problem, const Layout& layout);

}  // namespace plan
