#pragma once

#include "formulas/cluster.hpp"
#include "presets/lines.hpp"
#include "presets/yaml.hpp"

namespace plan {

/// The keys of a GPU, alone in its file or inside a cluster's.
void read_gpu_fields(yaml::Map& root, Gpu& gpu);
/// In a cluster's file the tiers state the links, and a measured one carries its rates along.
void write_gpu_fields(Lines& out, int indent, const Gpu& gpu, bool in_cluster, bool with_rates);

}  // namespace plan
