#pragma once

#include "formulas/cluster.hpp"
#include "presets/reader.hpp"
#include "presets/yaml.hpp"

namespace plan {

/// What a cluster's file says behind its header.
void read_cluster_keys(yaml::Map& root, const GpuLookup& lookup, Cluster& cluster);

}  // namespace plan
