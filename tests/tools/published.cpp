#include "tests/tools/published.hpp"

#include <fmt/core.h>

#include <map>
#include <optional>
#include <string>

#include "presets/default_cluster.hpp"
#include "presets/stack.hpp"
#include "presets/store.hpp"

namespace plan::fit {

Catalogue preset_catalogue() {
  static std::map<std::string, std::optional<Model>> models;
  static std::map<std::string, std::optional<Cluster>> clusters;
  Catalogue catalogue;
  catalogue.model = [](std::string_view name) {
    auto [at, fresh] = models.try_emplace(std::string(name));
    if (fresh)
      if (auto found = load_model(name, StoreOptions{})) at->second = found->value;
    return at->second;
  };
  catalogue.cluster = [](std::string_view gpu, int gpus_per_node, int) {
    auto [at, fresh] = clusters.try_emplace(fmt::format("{}/{}", gpu, gpus_per_node));
    if (!fresh) return at->second;
    if (auto found = load_cluster_of_gpu(gpu, StoreOptions{})) {
      Cluster cluster = found->value;
      if (cluster.tiers.front().size == cluster.gpus_per_node) cluster.tiers.front().size = gpus_per_node;
      cluster.gpus_per_node = gpus_per_node;
      at->second = cluster;
    }
    return at->second;
  };
  catalogue.released = stack_of_release;
  return catalogue;
}

}  // namespace plan::fit
