// The distinct kinds of layer that a model has. Tested by tests/formulas/bf16_layers_test.cpp.
#include "formulas/layer_kinds.hpp"

#include <algorithm>

namespace plan {

int kind_of(Model& model, const Layer& layer) {
  const auto found = std::find(model.kinds.begin(), model.kinds.end(), layer);
  if (found != model.kinds.end()) return static_cast<int>(found - model.kinds.begin());
  model.kinds.push_back(layer);
  return static_cast<int>(model.kinds.size()) - 1;
}

}  // namespace plan
