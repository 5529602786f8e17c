// Questions to the table of launch files.
#include "cli/launch/formats.hpp"

#include <algorithm>

#include "cli/launch/launch.hpp"

namespace plan {

std::span<const LaunchFormat> launch_formats() { return kFormats; }

bool is_read(const LaunchSource& source) {
  return std::any_of(std::begin(kFormats), std::end(kFormats),
                     [&](const LaunchFormat& format) { return format.read != nullptr && format.recognise(source); });
}

std::vector<std::string> emit_words() {
  std::vector<std::string> words;
  for (const LaunchFormat& format : launch_formats())
    if (format.write != nullptr) words.emplace_back(format.name);
  return words;
}

void settle(std::string_view name, Problem& problem) {
  for (const LaunchFormat& format : launch_formats()) {
    if (format.name != name) continue;
    if (format.settle != nullptr) format.settle(problem);
    problem.mesh_per_pool = format.meshes && !problem.pools.empty();
  }
}

std::optional<Framework> framework_of_format(std::string_view name) {
  for (const LaunchFormat& format : launch_formats())
    if (format.name == name && format.write != nullptr) return format.framework;
  return std::nullopt;
}

}  // namespace plan
