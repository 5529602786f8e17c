// Mamba-2 (arXiv:2405.21060): what its fused kernel keeps for backward.
// mamba_split_conv1d_scan_combined keeps the projected input and the scan's output; the output projection its input;
// the gated norm one number a group. Source: arguments that the kernel saves (state-spaces/mamba). Tested by
// tests/formulas/activation_test.cpp.
#include "formulas/layer_trail.hpp"

namespace plan {

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
