#pragma once

#include "formulas/cluster.hpp"

namespace plan {

/// Size of an outermost tier that holds any number of GPUs.
inline constexpr int kAnyGpus = 1 << 20;

/// The cluster that a GPU usually comes in: its scale-up domain, then one flat network of one NIC per GPU. Named
/// after the GPU.
[[nodiscard]] Cluster default_cluster(const Gpu& gpu);

}  // namespace plan
