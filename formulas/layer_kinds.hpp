#pragma once

#include "formulas/model.hpp"

namespace plan {

/// The number of this kind of layer in the model, which gets it where it has none like it.
[[nodiscard]] int kind_of(Model& model, const Layer& layer);

/// Whether two models are as wide and as deep, and `same` holds for their layers, one by one.
template <class Same>
[[nodiscard]] bool layer_by_layer(const Model& a, const Model& b, const Same& same) {
  if (a.hidden != b.hidden || a.layers.size() != b.layers.size()) return false;
  for (std::size_t i = 0; i < a.layers.size(); ++i)
    if (!same(a.kinds[static_cast<std::size_t>(a.layers[i])], b.kinds[static_cast<std::size_t>(b.layers[i])]))
      return false;
  return true;
}

}  // namespace plan
