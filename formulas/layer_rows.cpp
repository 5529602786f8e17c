// What all rows of a layer say together. Tested by tests/formulas/parameters_test.cpp and, against published totals,
// tests/presets.
#include "formulas/layer_rows.hpp"

namespace plan {

LayerWeights layer_weights(const Model& model, const Layer& layer) {
  LayerWeights out;
  mixer_row(layer.mixer).part.weights(out, model.hidden, layer);
  ffn_row(layer.ffn).part.weights(out, model.hidden, layer);
  out.add({.what = "norms of the layer",
           .spread = Spread::Whole,
           .out = layer.norms * model.norm_vectors() * model.hidden});
  return out;
}

}  // namespace plan
