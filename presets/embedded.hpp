#pragma once

#include <span>
#include <string_view>

namespace plan {

/// A preset file compiled into the program.
struct EmbeddedFile {
  std::string_view folder;  ///< models, gpus, clusters, efficiency, stacks, machines
  std::string_view name;    ///< without ".yaml"
  std::string_view text;
};

/// All of them, by folder and name. presets/embed.cmake writes the definition.
[[nodiscard]] std::span<const EmbeddedFile> embedded_files();

}  // namespace plan
