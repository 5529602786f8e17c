#pragma once

#include "formulas/layout.hpp"
#include "formulas/traced.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Whether each micro-batch gathers the weights once, frozen ones too: FSDP2 that keeps them gathered from forward to
/// backward lets them go behind it (fully_shard, reshard_after_forward=False). The stages of PyTorch's pipelines keep
/// them until the last micro-batch (PipelineStage, set_reshard_after_backward).
[[nodiscard]] inline bool gathers_each_pass(const Training& training, const Layout& layout) {
  return layout.zero == 2 && layout.pp == 1 && training.stack.states == StateLayout::Fsdp2;
}

/// Exposed part of what every pass but the first sends again, in seconds: beside a pass each where that overlaps, which
/// costs `tax` of what it hides.
template <class Time, class V>
[[nodiscard]] Time sent_again(const Time& once, const Time& pass, const V& passes, const V& tax, bool overlaps) {
  return (passes - 1.0) * (overlaps ? larger(tax * once, once - pass) : once);
}

}  // namespace plan
