// Mamba-2 (arXiv:2405.21060): what its fused kernel keeps for backward.
// mamba_split_conv1d_scan_combined keeps the projected input and the scan's output; the output projection its input;
// the gated norm one number a group. Source: arguments that the kernel saves (state-spaces/mamba). Tested by
// tests/formulas/activation_test.cpp.
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"

namespace plan {

/// One input projection (gate, x, B, C, time steps), a convolution with bias, A, D and the steps' bias, a gated norm,
/// the output.
void add_mamba_weights(LayerWeights& out, std::int64_t h, const Mamba2Shape& shape) {
  const std::int64_t inner = shape.heads * shape.head_dim, bc = 2 * shape.groups * shape.state;
  out.add({.what = "input projection", .out = 2 * inner + bc + shape.heads, .in = h});
  out.add({.what = "output projection", .out = h, .in = inner, .second = true});
  out.add({.what = "convolution", .out = (inner + bc) * (shape.conv + 1)});
  out.add({.what = "A, D and the bias of the time steps", .out = 3 * shape.heads});
  out.add({.what = "gated norm", .out = inner});
}

template <class V>
void keep_mamba(Keeper<V>& out, const LayerSizes<V>& n) {
  const Mamba2Shape& shape = n.layer.mamba;
  const V heads = symbol<V>("a", shape.heads, "heads of the scan", "model");
  const V inner = heads * symbol<V>("d", shape.head_dim, "width of a head", "model");
  const V groups = symbol<V>("g", shape.groups, "groups that share B and C", "model");
  const V states = symbol<V>("n", shape.state, "states of a channel", "model");
  out.keep({Fate::Mixer, "mx", "projected input: gate, x, B, C and the time steps"},
           n.element * (2 * inner + 2 * groups * states + heads) / n.t);
  out.keep({Fate::Mixer, "so", "output of the scan"}, n.element * inner / n.t);
  out.keep({Fate::Mixer, "go", "input of the output projection"}, n.input * inner / n.t);
  out.keep({Fate::Mixer, "gs", "statistics of the gated norm, one a group: fp32"}, 4 * groups / n.t);
}

template void keep_mamba(Keeper<double>&, const LayerSizes<double>&);
template void keep_mamba(Keeper<Traced>&, const LayerSizes<Traced>&);

}  // namespace plan
