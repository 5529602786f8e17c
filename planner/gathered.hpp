#pragma once

#include "formulas/layout.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Whether each micro-batch gathers the weights once, frozen ones too: FSDP2 that keeps them gathered from forward to
/// backward lets them go behind it (fully_shard, reshard_after_forward=False). The stages of PyTorch's pipelines keep
/// them until the last micro-batch (PipelineStage, set_reshard_after_backward).
[[nodiscard]] inline bool gathers_each_pass(const Training& training, const Layout& layout) {
  return layout.zero == 2 && layout.pp == 1 && training.stack.states == StateLayout::Fsdp2;
}

}  // namespace plan
