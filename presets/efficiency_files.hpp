#pragma once

#include <span>
#include <string_view>

namespace plan {

/// One file of presets/efficiency, as built into the program.
struct EmbeddedEfficiency {
  std::string_view name;  ///< without .yaml
  std::string_view text;
};
[[nodiscard]] std::span<const EmbeddedEfficiency> efficiency_files();

}  // namespace plan
