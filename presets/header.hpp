#pragma once

#include <string>
#include <string_view>

#include "presets/yaml.hpp"

namespace plan {

/// The lines that every preset begins with: `preset: model/1`, `name`, and optional `aliases`.
void read_header(yaml::Map& root, std::string_view kind, std::string& name);

}  // namespace plan
