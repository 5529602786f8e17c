#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formulas/hardware_profile.hpp"
#include "formulas/model.hpp"

namespace plan {

/// GEMMs of one micro-batch of `tokens` tokens on a rank, as training executes them.
struct TrainingGemm {
  std::string label{};
  double m = 0, n = 0, k = 0;
  Orientation orientation = Orientation::Forward;
};
[[nodiscard]] std::vector<TrainingGemm> training_gemms(const Model& model, int tp, std::int64_t tokens);

/// Groups that plans use on this many ranks: in the node, one rank a node, everyone.
[[nodiscard]] std::vector<GroupShape> group_shapes(int ranks, int ranks_per_node);

}  // namespace plan
