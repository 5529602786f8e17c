#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/cluster.hpp"
#include "formulas/model.hpp"
#include "formulas/pool.hpp"
#include "formulas/result.hpp"
#include "presets/entries.hpp"

namespace plan {

/// A preset and where it was found.
template <class T>
struct Found {
  T value{};
  std::string name{};      ///< its own name, whatever alias found it
  std::string origin{};    ///< "embedded" or the path of the file
  std::string digest{};    ///< SHA-256 of the content without names and comments
  bool exact = true;       ///< false: found by a name without the suffix of a variant, such as `-Instruct`
  std::string left_out{};  ///< of a model's file: sections of parts that are not read
  /// Of a model: `seq` and `global_batch`, where its file or preset does not say what it was trained with.
  std::vector<std::string> unpublished{};
};

/// A name or alias (case does not matter), a YAML file, a Hugging Face config.json or a folder with one; else the
/// preset whose layers a checkpoint of that name has: without its owner, or without what names of variants add.
[[nodiscard]] Result<Found<Model>> load_model(std::string_view word, const StoreOptions& options);
/// The same; nothing if there is no such name, which load_model would set beside all that are like it.
[[nodiscard]] std::optional<Result<Found<Model>>> find_model(std::string_view word, const StoreOptions& options);
/// A name or alias, or a YAML file.
[[nodiscard]] Result<Found<Gpu>> load_gpu(std::string_view word, const StoreOptions& options);
[[nodiscard]] Result<Found<Cluster>> load_cluster(std::string_view word, const StoreOptions& options);
/// The kinds of GPU of a cluster's file that has several; nothing if it has one, or is none.
[[nodiscard]] Result<std::optional<Found<PooledCluster>>> load_pools(std::string_view word,
                                                                     const StoreOptions& options);
/// The cluster that a GPU usually comes in (default_cluster).
[[nodiscard]] Result<Found<Cluster>> load_cluster_of_gpu(std::string_view word, const StoreOptions& options);

/// What a listed preset says. GPUs have their data sheet alone: for a list, measured efficiencies take too long.
[[nodiscard]] Result<Model> parse_model(const PresetEntry& entry);
[[nodiscard]] Result<Gpu> parse_gpu(const PresetEntry& entry);
[[nodiscard]] Result<Cluster> parse_cluster(const PresetEntry& entry, const StoreOptions& options);
[[nodiscard]] Result<PooledCluster> parse_pools(const PresetEntry& entry, const StoreOptions& options);

}  // namespace plan
