// Questions to the table of launch files.
#include "cli/launch/formats.hpp"

namespace plan {

std::span<const LaunchFormat> launch_formats() { return kFormats; }

std::vector<std::string> emit_words() {
  std::vector<std::string> words;
  for (const LaunchFormat& format : launch_formats())
    if (format.write != nullptr) words.emplace_back(format.name);
  return words;
}

namespace {

/// Leaves to the search what these tools have words for, as their writers say, where nobody fixed it: adapters that
/// are whole; of torchtune FSDP2 over all ranks, with nothing on the host.
void keep_to_tuning(Writes* tool, Problem& problem) {
  Fixed& fixed = problem.fixed;
  if (problem.training.adapters() && !fixed.tp) fixed.tp = 1;
  if (tool != write_torchtune) return;
  if (!fixed.cp) fixed.cp = 1;
  if (!fixed.zero) fixed.zero = 3;
  if (!fixed.shard) fixed.shard = 0;
  problem.free_switches = 0;
}

}  // namespace

void settle(std::string_view name, Problem& problem) {
  for (const LaunchFormat& format : launch_formats()) {
    if (format.name != name) continue;
    if (format.trains != nullptr) format.trains(problem.training);
    if (format.write == write_axolotl || format.write == write_torchtune) keep_to_tuning(format.write, problem);
    problem.mesh_per_pool = format.meshes && !problem.pools.empty();
  }
}

std::optional<Framework> framework_of_format(std::string_view name) {
  for (const LaunchFormat& format : launch_formats())
    if (format.name == name && format.write != nullptr) return format.framework;
  return std::nullopt;
}

}  // namespace plan
