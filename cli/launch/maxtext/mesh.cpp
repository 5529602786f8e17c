// The mesh of a MaxText job: each axis is a degree inside a slice times one across slices. Defaults: MaxText e591f30c
// configs/base.yml. Tested by tests/launch/maxtext_mesh_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/maxtext/maxtext.hpp"
#include "formulas/text.hpp"

namespace plan::maxtext {
namespace {

constexpr std::string_view kMeshAxes[] = {"diloco",        "data",
                                          "fsdp",          "fsdp_transpose",
                                          "sequence",      "context",
                                          "tensor",        "context_autoregressive",
                                          "pipeline",      "tensor_sequence",
                                          "expert",        "context_usp_ulysses",
                                          "autoregressive"};

/// One network's degrees, with -1 filled from the devices that it joins (0: not known).
std::map<std::string_view, int> network(JobBuilder& builder, std::string_view name, int devices, bool& open) {
  std::map<std::string_view, int> degrees;
  std::string_view rest;
  double all = 1;
  for (const std::string_view axis : kMeshAxes) {
    const int otherwise = (name == "ici" && axis == "fsdp") || (name == "dcn" && axis == "data") ? -1 : 1;
    const int degree = builder.degree(key_of(name, axis), otherwise, -1);
    if (degree == -1)
      rest = axis;
    else
      all *= std::max(1, degree);
    degrees[axis] = std::max(1, degree);
  }
  if (all > kMostGpus) {
    builder.errors.push_back({"wrong_value", fmt::format("the {} axes multiply to {:.3g} devices", name, all)});
    return degrees;
  }
  if (rest.empty()) return degrees;
  const auto product = static_cast<std::int64_t>(all);
  if (devices > 0 && product <= devices && devices % product == 0)
    degrees[rest] = static_cast<int>(devices / product);
  else if (devices > 0)
    builder.errors.push_back(
        {"does_not_divide", fmt::format("the {} axes multiply to {}, which does not divide {} {}", name, product,
                                        devices, name == "ici" ? "devices of a slice" : "slices")});
  else
    open = true;
  return degrees;
}

/// Slices that the file states: of a topology to compile for, or of the devices there are.
int stated_slices(JobBuilder& builder) {
  const int compiled = std::max(0, builder.degree("compile_topology_num_slices", 0, -1));
  const int present = std::max(0, builder.degree("num_slices", 0, -1));
  return compiled > 0 ? compiled : present;
}

/// Axes across slices that are all stated make as many slices as there are.
void check_slices(JobBuilder& builder, const std::map<std::string_view, int>& across, int slices, bool open) {
  double all = 1;
  for (const auto& [axis, degree] : across) all *= degree;
  if (slices < 1 || open || all == slices) return;
  const char* key =
      builder.settings.states("compile_topology_num_slices") ? "compile_topology_num_slices" : "num_slices";
  builder.settings.refuse(*builder.settings.get(key), fmt::format("{:.0f}, as the dcn axes multiply to", all));
}

}  // namespace

std::span<const std::string_view> mesh_axes() { return kMeshAxes; }

std::string key_of(std::string_view network, std::string_view axis) {
  return fmt::format("{}_{}_parallelism", network, axis);
}

Mesh read_mesh(JobBuilder& builder, const LaunchFacts& facts) {
  Mesh mesh;
  // On GPUs a slice is a node; a launcher says how many there are.
  const auto inside = network(builder, "ici", facts.gpus_per_node, mesh.open);
  const int slices = stated_slices(builder);
  const auto across = network(builder, "dcn", facts.nodes > 0 ? facts.nodes : slices, mesh.open);
  if (facts.total == 0) check_slices(builder, across, slices, mesh.open);  // else they are another job's
  double all = 1;
  for (const std::string_view axis : kMeshAxes) all *= 1.0 * inside.at(axis) * across.at(axis);
  if (all > kMostGpus) {
    builder.errors.push_back({"wrong_value", fmt::format("the axes multiply to {:.3g} devices", all)});
    return mesh;
  }
  for (const std::string_view axis : kMeshAxes) mesh.size[axis] = inside.at(axis) * across.at(axis);
  mesh.inside = inside, mesh.across = across;
  if (lowered(builder.settings.text("hardware").value_or("tpu")) == "tpu" && !mesh.open) {
    builder.job.slice_gpus = 1;
    for (const std::string_view axis : kMeshAxes) builder.job.slice_gpus *= inside.at(axis);
  }
  return mesh;
}

void tell_crossings(JobBuilder& builder, const Mesh& mesh) {
  if (mesh.open || mesh.across.empty()) return;  // not known, or a mistake that is reported
  const bool pipe_outside = builder.job.fixed.order != AxisOrder::DataOutermost;
  // From the neighbours out, as the layout places them.
  constexpr std::string_view kOutside[] = {
      "tensor", "tensor_sequence", "context", "context_usp_ulysses", "expert", "fsdp", "fsdp_transpose", "sequence",
      "data",   "pipeline"};
  constexpr std::string_view kWithin[] = {
      "tensor",         "tensor_sequence", "context", "context_usp_ulysses", "expert", "pipeline", "fsdp",
      "fsdp_transpose", "sequence",        "data"};
  const auto& order = pipe_outside ? kOutside : kWithin;
  for (std::size_t i = 0; i < std::size(order); ++i)
    for (std::size_t j = i + 1; j < std::size(order); ++j) {
      if (mesh.across.at(order[i]) == 1 || mesh.inside.at(order[j]) == 1) continue;
      const std::string crosses = key_of("dcn", order[i]), stays = key_of("ici", order[j]);
      builder.unused(crosses, fmt::format("`{}: {}` crosses slices while `{}: {}` stays inside one: its messages are "
                                          "counted as between neighbours",
                                          crosses, mesh.across.at(order[i]), stays, mesh.inside.at(order[j])));
      break;
    }
}

}  // namespace plan::maxtext
