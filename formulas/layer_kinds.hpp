#pragma once

#include "formulas/model.hpp"

namespace plan {

/// The number of this kind of layer in the model, which gets it where it has none like it.
[[nodiscard]] int kind_of(Model& model, const Layer& layer);

}  // namespace plan
