#pragma once

#include "formulas/cluster.hpp"

namespace plan {

/// The cluster with nodes of `per_node` GPUs and as many NICs for each; 0: as it is. A scale-up domain wider than a
/// node stays as it is, too.
[[nodiscard]] Cluster with_node_of(Cluster cluster, int per_node);

}  // namespace plan
