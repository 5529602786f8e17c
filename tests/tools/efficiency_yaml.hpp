#pragma once

#include <string>

#include "tests/tools/efficiency_tables.hpp"

namespace plan::derive {

/// The file of presets/efficiency for one GPU.
std::string to_yaml(const Derived& derived);

}  // namespace plan::derive
