#pragma once

#include <cstdint>

#include "formulas/cluster.hpp"
#include "formulas/layout.hpp"
#include "formulas/real_bytes.hpp"
#include "formulas/traced.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// The sums of largest values that delayed scaling makes its next scales of; no ranks where there are none.
struct ScaleMessages {
  Group group{};      ///< all ranks of a stage
  RealBytes bytes{};  ///< of one, in the mean over forward and backward passes and over the chunks of the model
  double passes = 0;  ///< of a rank in a step, forward and backward, each of which ends in one
};
[[nodiscard]] ScaleMessages scale_messages(const Problem& problem, const Layout& layout);

/// Seconds of all of them in a step: nothing is left of a pass that one could run beside.
template <class V>
[[nodiscard]] SecondsOf<V> scale_seconds(const Cluster& cluster, const ScaleMessages& messages);

}  // namespace plan
