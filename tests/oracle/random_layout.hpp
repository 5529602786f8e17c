#pragma once

#include <random>

#include "formulas/layout.hpp"

namespace plan::oracle {

/// A value of each axis that its row in kAxes allows, whether or not they go together: an axis that is new takes part.
[[nodiscard]] Layout any_values(std::mt19937& random);

}  // namespace plan::oracle
