#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"
#include "presets/store.hpp"

namespace plan {

/// Does the word name kinds of GPU, not only a number?
[[nodiscard]] bool names_pools(std::string_view text);

/// `64xa100-sxm-80gb,64xh100-sxm,link=25GB/s`: so many of a GPU in its usual cluster, or of a cluster by its name or
/// file; `link` is the rate at which one GPU reaches another pool. Pools of the same cluster are one.
[[nodiscard]] Result<PooledCluster> read_pools(std::string_view text, const StoreOptions& store);

/// What is wrong with words whose numbers have separators of thousands, as `1,000 x h100-sxm` or `1.000xh100`; none if
/// there is no such number, or nothing beside it.
[[nodiscard]] std::optional<Error> grouped_gpus(std::string_view text, const StoreOptions& store);

/// That `32,8xb200` says of one of its numbers no kind, which no other can give it; none of other words.
[[nodiscard]] std::optional<Error> number_without_kind(std::string_view key, std::string_view text,
                                                       const StoreOptions& store);

/// That `--gpu 8` gives a number where a kind is asked for; none of other words, nor of digits that a preset in `store`
/// goes by, as 4090 is, but for those with separators of thousands. `counted`: the number of GPUs is stated beside it,
/// so that none is proposed; `file`: in a budget's words.
[[nodiscard]] std::optional<Error> number_for_kind(std::string_view key, std::string_view text, bool counted, bool file,
                                                   const StoreOptions& store);

/// Adds so many GPUs of a kind to such words.
void add_pool(std::string& words, int gpus, std::string_view kind);

/// The same words for pools that a file describes; networks between two of them alone have none.
[[nodiscard]] std::string pools_text(const PooledCluster& cluster);

/// `tp8,pp2/tp4,pp4`: the axes of each pool, in the order in which pools are named.
[[nodiscard]] Result<std::vector<Fixed>> read_pool_layouts(std::string_view text);

}  // namespace plan
