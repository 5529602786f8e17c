#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "formulas/cluster.hpp"
#include "formulas/model.hpp"
#include "formulas/pool.hpp"
#include "formulas/result.hpp"

namespace plan {

/// Model from a `preset: model/1` file. `file` is the name in messages.
[[nodiscard]] Result<Model> read_model(std::string text, std::string file);

/// GPU from a `preset: gpu/1` file.
[[nodiscard]] Result<Gpu> read_gpu(std::string text, std::string file);

/// Finds the GPU that a cluster file names.
using GpuLookup = std::function<Result<Gpu>(std::string_view)>;

/// Cluster from a `preset: cluster/1` file, whose `gpu` is a name or the GPU itself.
[[nodiscard]] Result<Cluster> read_cluster(std::string text, std::string file, const GpuLookup& lookup);

/// What a file with several kinds of GPU names.
struct PoolLookup {
  GpuLookup sheet{};                                           ///< a GPU's data sheet
  std::function<Result<Cluster>(std::string_view)> usual{};    ///< a GPU in its usual cluster
  std::function<Result<Cluster>(std::string_view)> cluster{};  ///< a cluster by name or file
  std::function<Errors(Gpu&)> rates{};                         ///< adds what the program knows of a GPU's rates
};

/// Most kinds of GPU of one job.
inline constexpr std::size_t kMostPools = 4;

/// Does a cluster's file describe several kinds of GPU?
[[nodiscard]] bool describes_pools(std::string_view text);

/// The kinds of GPU of a `preset: cluster/1` file that has `pools`, and the networks between them.
[[nodiscard]] Result<PooledCluster> read_pooled_cluster(std::string text, std::string file, const PoolLookup& lookup);

/// Preset files that read back as the same value. A non-empty `source` becomes the comment of every line. Measured
/// efficiencies are written with a cluster that is `measured`; those of a data sheet are in the program already.
[[nodiscard]] std::string write_model(const Model& model, std::string_view source = {});
[[nodiscard]] std::string write_gpu(const Gpu& gpu, std::string_view source = {});
[[nodiscard]] std::string write_cluster(const Cluster& cluster, std::string_view source = {});
[[nodiscard]] std::string write_pooled_cluster(const PooledCluster& cluster, std::string_view source = {});

}  // namespace plan
