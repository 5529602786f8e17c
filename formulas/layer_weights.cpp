// Weights of a layer, and the sums over them that ask for shapes (plan-formulas(7) A1, C2). Tested by
// tests/formulas/parameters_test.cpp and, against published totals, tests/presets.
#include "formulas/layer_weights.hpp"

#include <algorithm>

#include "formulas/layer_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/transient.hpp"

namespace plan {
/// Ranks that share the weight's split side.
double Weight::shared_by(int tp, int etp) const {
  switch (spread) {
    case Spread::Whole:
    case Spread::ExpertWhole: return 1;
    case Spread::Expert: return etp;
    case Spread::Tensor: return tp;
  }
  return 1;
}

double Weight::rows_on_rank(int tp, int etp) const {
  const double rows = static_cast<double>(out) / (second ? 1 : shared_by(tp, etp));
  if (kv_out == 0) return rows;
  const auto heads = static_cast<double>(kv_heads), head = static_cast<double>(kv_out / kv_heads);
  return rows + shared_heads_on_rank<double>(heads, head, tp);
}

double Weight::columns_on_rank(int tp, int etp) const {
  if (!matrix()) return 1;
  return static_cast<double>(in) / (second ? shared_by(tp, etp) : 1);
}

LayerWeights layer_weights(const Model& model, const Layer& layer) {
  LayerWeights out;
  mixer_row(layer.mixer).part.weights(out, model.hidden, layer);
  ffn_row(layer.ffn).part.weights(out, model.hidden, layer);
  out.add({.what = "norms of the layer",
           .spread = Spread::Whole,
           .out = layer.norms * model.norm_vectors() * model.hidden});
  return out;
}

LinearShapes linear_shapes(const Model& model, const Layer& layer, const Layout& layout) {
  LinearShapes out;
  for (const Weight& w : layer_weights(model, layer)) {
    if (!w.matrix() || !w.linear) continue;
    const double rows = w.rows_on_rank(layout.tp, layout.etp);
    const double count = w.expert() ? static_cast<double>(layer.moe.experts) / layout.ep : 1.0;
    if (w.joined)
      out.shapes[static_cast<std::size_t>(out.size - 1)].rows += rows;
    else
      out.add({rows, w.columns_on_rank(layout.tp, layout.etp), count, w.expert()});
  }
  return out;
}

}  // namespace plan
