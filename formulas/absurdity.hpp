#pragma once

#include <string>

#include "formulas/model.hpp"

namespace plan {

/// More parameters than a model that is read may have: their bytes, and those of their states, stay below 2^57.
inline constexpr double kMostParameters = 1e15;

/// Why no real model has these sizes; empty if they make sense. Keeps every later product inside 63 bits.
[[nodiscard]] std::string absurdity(const Model& model);

}  // namespace plan
