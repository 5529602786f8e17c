// The cluster that a GPU is in where nobody names one: its own node, joined by its own network adapter. Tested by
// tests/presets/store_test.cpp.
#include "presets/default_cluster.hpp"

#include <algorithm>

#include "formulas/torus.hpp"

namespace plan {

Cluster default_cluster(const Gpu& gpu) {
  Cluster cluster;
  cluster.name = gpu.name;
  cluster.gpu = gpu;
  cluster.gpus_per_node = gpu.gpus_per_node;
  cluster.nics_per_node = gpu.nic.value > 0 ? gpu.gpus_per_node : 0;
  const BytesPerSecond inside = gpu.scale_up.value > 0 ? gpu.scale_up : gpu.host_link;
  cluster.tiers.push_back({"scale-up", std::max(1, gpu.scale_up_size), inside, {}, 1, Provenance::Datasheet});
  const BytesPerSecond outside = gpu.nic.value > 0 ? gpu.nic : inside;
  cluster.tiers.push_back(
      {"network", kAnyGpus, outside, {}, 1, gpu.nic.value > 0 ? Provenance::Datasheet : Provenance::Assumed});
  if (gpu.slices.any()) {
    cluster.tiers.front().name = "slice";
    put_on_slices(cluster, gpu.slices.largest);
  }
  return cluster;
}

}  // namespace plan
