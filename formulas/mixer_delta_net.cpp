// Gated DeltaNet (arXiv:2412.06464, as in Qwen3-Next): what its chunked kernel keeps for backward.
// Inputs and outputs of the short convolutions, keys repeated to the value heads, decay and write gates in fp32, the
// triangular blocks of the chunked rule, output gate and output. Source: arguments that the kernels save
// (flash-linear-attention). Tested by tests/formulas/activation_test.cpp.
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"

namespace plan {

/// Queries, keys, values and output gate, the write and decay gates, a convolution without bias, A and the decay's
/// bias, a norm over one value head, the output.
void add_delta_weights(LayerWeights& out, std::int64_t h, const DeltaNetShape& shape) {
  const std::int64_t keys = shape.key_heads * shape.key_dim, values = shape.value_heads * shape.value_dim;
  out.add({.what = "queries, keys, values and output gate", .out = 2 * keys + 2 * values, .in = h});
  out.add({.what = "write and decay gates", .out = 2 * shape.value_heads, .in = h, .joined = true});
  out.add({.what = "output projection", .out = h, .in = values, .second = true});
  out.add({.what = "convolution", .out = (2 * keys + values) * shape.conv});
  out.add({.what = "A and the bias of the decay", .out = 2 * shape.value_heads});
  out.add({.what = "norm of a head", .spread = Spread::Whole, .out = shape.value_dim});
}

template <class V>
void keep_delta(Keeper<V>& out, const LayerSizes<V>& n) {
  const DeltaNetShape& shape = n.layer.delta;
  constexpr double kChunk = 64;  // tokens of a block
  const V heads = symbol<V>("a", shape.value_heads, "value heads", "model") / n.t;
  const V key = symbol<V>("d_k", shape.key_dim, "width of a head's keys", "model");
  const V keys = symbol<V>("g", shape.key_heads, "key heads", "model") * key / n.t;
  const V values = heads * symbol<V>("d_v", shape.value_dim, "width of a head's values", "model");
  out.keep({Fate::Mixer, "cv", "queries, keys and values before and behind the short convolution"},
           n.element * 2 * (2 * keys + values));
  out.keep({Fate::Mixer, "kr", "queries and keys repeated for every value head"}, n.element * 2 * heads * key);
  out.keep({Fate::Mixer, "tb", "triangular blocks of 64 tokens"},
           n.element * heads * symbol<V>("b", kChunk, "tokens of a block", "stack"));
  out.keep({Fate::Mixer, "do", "output of the rule and the logits of its gate"}, n.element * 2 * values);
  out.keep({Fate::Mixer, "go", "input of the output projection"}, n.input * values);
  out.keep({Fate::Mixer, "dg", "decay, its logarithm and the write gate: fp32"}, 12 * heads);
}

template void keep_delta(Keeper<double>&, const LayerSizes<double>&);
template void keep_delta(Keeper<Traced>&, const LayerSizes<Traced>&);

}  // namespace plan
