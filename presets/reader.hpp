#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "formulas/cluster.hpp"
#include "formulas/model.hpp"
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

/// Preset files that read back as the same value. A non-empty `source` becomes the comment of every line. Measured
/// efficiencies are written with a cluster that is `measured`; those of a data sheet are in the program already.
[[nodiscard]] std::string write_model(const Model& model, std::string_view source = {});
[[nodiscard]] std::string write_gpu(const Gpu& gpu, std::string_view source = {});
[[nodiscard]] std::string write_cluster(const Cluster& cluster, std::string_view source = {});

}  // namespace plan
