#pragma once

#include <cstddef>
#include <string>

#include "formulas/model.hpp"

namespace plan {

/// More parameters than a model that is read may have: their bytes, and those of their states, stay below 2^57.
inline constexpr double kMostParameters = 1e15;

/// More layers than a model that is read may have: the deepest published has 1,000 (arXiv:2203.00555).
inline constexpr std::size_t kMostDepth = 2000;

/// Why no real model has these sizes; empty if they make sense. Keeps every later product inside 63 bits.
[[nodiscard]] std::string absurdity(const Model& model);

}  // namespace plan
