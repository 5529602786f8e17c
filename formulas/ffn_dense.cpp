// Dense FFN, gated (SwiGLU, GeGLU: arXiv:2002.05202) or plain: what it keeps beside its norm.
// A fused activation keeps its input only; an unfused gate also SiLU's output. Inputs of frozen linears are not kept:
// only an adapter on them makes a weight gradient. Source: Korthikanti et al. 2022, arXiv:2205.05198, and the tensors
// that TransformerEngine saves. Tested by tests/formulas/activation_test.cpp.
#include "formulas/enum_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/part_row.hpp"

namespace plan {

/// The first bias is split like its rows, the second is added after the reduction.
void add_dense_weights(LayerWeights& out, std::int64_t h, const DenseShape& shape) {
  const std::int64_t first = (shape.gated ? 2 : 1) * shape.width;
  out.add({.what = shape.gated ? "gate and up projections" : "up projection",
           .part = LayerPart::Dense,
           .out = first,
           .in = h,
           .linears = shape.gated ? 2 : 1});
  if (shape.width > 0)
    out.add({.what = "down projection", .part = LayerPart::Dense, .out = h, .in = shape.width, .second = true});
  if (!shape.bias) return;
  out.add({.what = "biases before the activation", .part = LayerPart::Dense, .out = first});
  out.add({.what = "bias of the down projection", .part = LayerPart::Dense, .spread = Spread::Whole, .out = h});
}

namespace {

template <class V>
void keep(Keeper<V>& out, const LayerSizes<V>& n) {
  const DenseShape& shape = n.layer.dense;
  const V width = symbol<V>("f", shape.width, "width of the FFN", "model") / n.t;
  out.keep({Fate::Mlp, "ml",
            shape.gated ? "activation's input of the dense FFN: gate and up" : "activation's input of the dense FFN"},
           activation_input_bytes(n) * gates<V>(shape.gated) * width);
  if (!n.training.adapters() || n.training.lora.ffn)
    out.keep({Fate::MlpActivation, "ma", "activation's output of the dense FFN"}, n.input * width);
  if (shape.gated && !n.training.stack.fused_activation)
    out.keep({Fate::MlpActivation, "mg", "SiLU's output, which an unfused gate multiplies"}, n.element * width);
}

constexpr ShapeField kFields[] = {
    {"width", [](Layer& l) -> std::int64_t& { return l.dense.width; }, 1, kMostWidth, ShapeField::Need::Required},
    {"gated", [](Layer& l) -> bool& { return l.dense.gated; }},
    {"bias", [](Layer& l) -> bool& { return l.dense.bias; }},
};
static_assert(kMembers<DenseShape, std::size(kFields)>);

}  // namespace

constinit const FfnRow kDenseFfn{.ffn = Ffn::Dense,
                                 .part = part_row<&Layer::ffn, Ffn::Dense, &Layer::dense, add_dense_weights>(
                                     "dense", kFields, keep<double>, keep<Traced>)};

}  // namespace plan
