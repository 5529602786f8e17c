#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/job/job_builder.hpp"

/// MaxText: one flat YAML file over its base.yml.
namespace plan {

namespace maxtext {

/// MaxText's name of a model, and the preset that has its layers.
struct ModelName {
  std::string_view name;
  std::string_view preset;
};
/// Sizes of the mesh axes, inside a slice times across slices.
struct Mesh {
  std::map<std::string_view, int> size{}, inside{}, across{};
  bool open = false;  ///< an axis takes what is left, and no file says of how many
  int at(std::string_view axis) const {
    const auto found = size.find(axis);
    return found == size.end() ? 1 : found->second;
  }
};
[[nodiscard]] std::span<const std::string_view> mesh_axes();
/// `ici_fsdp_parallelism`: an axis of one of the networks.
[[nodiscard]] std::string key_of(std::string_view network, std::string_view axis);
[[nodiscard]] Mesh read_mesh(JobBuilder& builder, const LaunchFacts& facts);
/// Tells of axes that cross slices where the layout, which places axes from the neighbours out, has them inside one.
void tell_crossings(JobBuilder& builder, const Mesh& mesh);
/// The job of MaxText's keys, whatever file holds them.
[[nodiscard]] Result<LaunchJob> job_of(Settings& settings, std::string_view format, const LaunchFacts& facts);
/// The model by its name, or by the dimensions of a configuration without one.
void read_model(JobBuilder& builder);
[[nodiscard]] bool names_model(Settings& settings);
/// Formats, kernels and dropout, and what is counted in one way only.
void read_switches(JobBuilder& builder);
[[nodiscard]] std::span<const ModelName> model_names();
[[nodiscard]] const ModelName* name_of(const Model& model);

/// A quantization recipe of Transformer Engine.
struct Quantization {
  Precision precision;
  std::string_view name;
};
[[nodiscard]] std::span<const Quantization> quantizations();

/// One mesh axis: how many ranks inside a slice and across slices.
struct MeshAxis {
  std::string_view name;  ///< "fsdp": ici_fsdp_parallelism and dcn_fsdp_parallelism
  int size = 1;
  int inside = 1;
  int across() const { return size / inside; }
};
/// Fills slices from the innermost axis outwards; empty if they cannot be filled exactly.
[[nodiscard]] std::vector<MeshAxis> split_axes(std::vector<MeshAxis> inner_to_outer, int slice);

}  // namespace maxtext
}  // namespace plan
