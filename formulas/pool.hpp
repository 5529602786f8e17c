#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formulas/cluster.hpp"

namespace plan {

/// GPUs of one kind, in a job that has several.
struct Pool {
  Cluster cluster{};
  int gpus = 0;
};

/// The network between two pools, which their numbers name: `bandwidth` is the rate at which one GPU reaches the other
/// pool.
struct PoolLink {
  int one = 0, other = 0;
  Tier tier{};
};

/// Several kinds of GPU and what joins them.
struct PooledCluster {
  std::string name{};  ///< of the file that describes them; none: they were named one by one
  std::vector<Pool> pools{};
  std::optional<Tier> link{};     ///< between any two, where stated
  std::vector<PoolLink> links{};  ///< between two of them, instead of `link`

  /// GPUs of all pools together.
  [[nodiscard]] int gpus() const {
    int sum = 0;
    for (const Pool& pool : pools) sum += pool.gpus;
    return sum;
  }
  /// Is the network between every two pools stated?
  [[nodiscard]] bool joined() const { return link || links.size() == pools.size() * (pools.size() - 1) / 2; }
};

}  // namespace plan
