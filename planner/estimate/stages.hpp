#pragma once

#include <span>
#include <vector>

#include "formulas/layout.hpp"
#include "planner/cost/cost.hpp"
#include "planner/memory/memory.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Which pipeline rank runs which part of the model.
struct Stages {
  std::vector<int> chunk_layers{};       ///< layers of each chunk in model order
  std::vector<StageContent> contents{};  ///< distinct contents
  std::vector<int> content_of{};         ///< by rank, index into `contents`
  std::vector<int> stage_layers{};       ///< layers held by each rank
  bool operator==(const Stages&) const = default;
};

/// Which ends of the pipeline a stage is.
struct StageEnds {
  bool first = false, last = false;
};
/// A stage of the layers that `up_to` has beyond `before`, each all layers in front of some layer.
[[nodiscard]] StageContent layers_between(const Model& model, const StageContent& before, const StageContent& up_to,
                                          StageEnds ends);

/// Consecutive ranks with the same content.
struct Segment {
  int content = 0;
  int first = 0;  ///< rank
  int ranks = 1;
};
/// All ranks, front to back.
[[nodiscard]] std::vector<Segment> segments_of(const Stages& stages);

/// Splits the layers over the ranks so that the slowest rank is as fast as possible, embedding and
/// head counted; or takes `layout.chunk_layers` where the user fixed them, which the rules have held to the chunks
/// and to the model's depth. `cells`: of each rank the cell that it belongs to, none if there is one.
[[nodiscard]] Stages plan_stages(const Problem& problem, const CostModel& costs, const Layout& layout,
                                 std::span<const int> cells = {});

}  // namespace plan
