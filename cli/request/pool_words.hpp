#pragma once

#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"
#include "presets/store.hpp"

namespace plan {

/// Kinds of GPU as `--gpus` names them.
struct PoolWords {
  std::vector<Pool> pools{};
  std::optional<Tier> link{};  ///< between them, where stated
  [[nodiscard]] int gpus() const;
};

/// Does the word name kinds of GPU, not only a number?
[[nodiscard]] bool names_pools(std::string_view text);

/// `64xa100-sxm-80gb,64xh100-sxm,link=25GB/s`: so many of a GPU in its usual cluster, or of a cluster by its name or
/// file; `link` is the rate at which one GPU reaches another pool. Pools of the same cluster are one.
[[nodiscard]] Result<PoolWords> read_pools(std::string_view text, const StoreOptions& store);

/// `tp8,pp2/tp4,pp4`: the axes of each pool, in the order in which pools are named.
[[nodiscard]] Result<std::vector<Fixed>> read_pool_layouts(std::string_view text);

}  // namespace plan
