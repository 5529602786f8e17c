// Forward FLOPs of a decoder per token (plan-formulas(7) B1): two for every weight of a matrix product that a token
// meets, and what attention or a scan does with no weights at all.
// Tested by tests/formulas/flops_test.cpp against published counts.
#include "formulas/flops.hpp"

#include <vector>

namespace plan {
namespace {

constexpr double real(std::int64_t n) { return static_cast<double>(n); }

/// Keys that an average query sees, under a window or the top-k of sparse attention (0 = none).
template <class V>
V attended(const char* name, double seq, std::int64_t reach, Mask mask) {
  return symbol<V>(name, attended_tokens(seq, real(reach), mask),
                   "keys that an average query sees: half the sequence under the causal mask", "seq");
}

/// Scores over a head's queries and keys, and weighted values, for each head and attended key.
template <class V>
V attention_core(const AttentionShape& shape, double seq, Mask mask) {
  return 4 * symbol<V>("H", shape.heads, "attention heads", "model") *
         symbol<V>("d", shape.head_dim, "width of a head", "model") * attended<V>("x", seq, shape.window, mask);
}

/// Sparse attention reads the top-k keys of each query; its indexer still scores all of them.
template <class V>
V latent_core(const LatentShape& shape, double seq, Mask mask) {
  const V widths = symbol<V>("d_k", shape.qk_dim(), "width of queries and keys of a head", "model") +
                   symbol<V>("d_v", shape.value_dim, "width of a head's values", "model");
  V core = 2 * symbol<V>("H", shape.heads, "attention heads", "model") * widths *
           attended<V>("x", seq, shape.index_top_k, mask);
  if (shape.index_heads == 0) return core;
  return core + 2 * symbol<V>("H_i", shape.index_heads, "heads of the indexer", "model") *
                    symbol<V>("d_i", shape.index_dim, "width of each", "model") * attended<V>("y", seq, 0, mask);
}

/// The chunked scan.
template <class V>
V mamba_core(const Mamba2Shape& shape) {
  return 7 * symbol<V>("H", shape.heads, "heads", "model") *
         symbol<V>("d", shape.head_dim, "width of a head", "model") *
         symbol<V>("n", shape.state, "states of a channel", "model");
}

/// Convolution and chunked rule.
template <class V>
V delta_core(const DeltaNetShape& shape) {
  const V keys = symbol<V>("k", shape.key_heads * shape.key_dim, "width of all keys", "model");
  const V values = symbol<V>("v", shape.value_heads * shape.value_dim, "width of all values", "model");
  return 2 * (symbol<V>("c", shape.conv, "taps of the convolution", "model") * (2 * keys + values) +
              4 * values * symbol<V>("d", shape.value_dim, "width of a head's values", "model"));
}

template <class V>
V core_of(const Layer& layer, double seq, Mask mask) {
  switch (layer.mixer) {
    case Mixer::None: return 0.0;
    case Mixer::Attention: return attention_core<V>(layer.attention, seq, mask);
    case Mixer::Latent: return latent_core<V>(layer.latent, seq, mask);
    case Mixer::Mamba2: return mamba_core<V>(layer.mamba);
    case Mixer::DeltaNet: return delta_core<V>(layer.delta);
  }
  return 0.0;
}

/// Where the FLOPs of a weight's matrix product are counted.
double& flops_of(LayerFlops& flops, LayerPart part) {
  switch (part) {
    case LayerPart::Mixer:
    case LayerPart::LatentUp: return flops.mixer;
    case LayerPart::Dense: return flops.dense;
    case LayerPart::Experts: return flops.experts;
    case LayerPart::Shared: return flops.shared;
    case LayerPart::Router: return flops.router;
  }
  return flops.mixer;
}

}  // namespace

double product_flops(const Weight& weight, const Layer& layer) {
  if (!weight.matrix()) return 0;
  return 2 * real(weight.numel()) * (weight.expert() ? real(layer.moe.top_k) : 1.0);
}

LayerFlops layer_flops(const Model& model, const Layer& layer, double seq, Mask mask) {
  LayerFlops flops;
  for (const Weight& weight : layer_weights(model, layer)) {
    const double product = product_flops(weight, layer);
    flops_of(flops, weight.part) += product;
    if (weight.part == LayerPart::LatentUp) flops.latent_up += product;
  }
  flops.core = core_of<double>(layer, seq, mask);
  return flops;
}

Traced traced_core_flops(const Layer& layer, double seq, Mask mask) { return core_of<Traced>(layer, seq, mask); }

ModelFlops model_flops(const Model& model, double seq, Mask mask) {
  std::vector<LayerFlops> kinds;
  kinds.reserve(model.kinds.size());
  for (const Layer& kind : model.kinds) kinds.push_back(layer_flops(model, kind, seq, mask));
  ModelFlops flops;
  for (const int kind : model.layers) flops.layers += kinds[static_cast<std::size_t>(kind)];
  const double hidden = real(model.hidden);
  flops.head = 2 * hidden * real(model.vocab);
  for (int run = 0; run < model.mtp.runs(); ++run) {
    for (const int kind : model.mtp.kinds) flops.mtp_layers += kinds[static_cast<std::size_t>(kind)];
    flops.mtp_projections += 4 * hidden * hidden;
    flops.mtp_heads += flops.head;
  }
  return flops;
}

double recompute_flops(const LayerFlops& layer, RecomputeKind kind, std::uint16_t modules) {
  if (kind == RecomputeKind::None) return 0;
  if (kind == RecomputeKind::Full) return layer.total();
  if (modules & kRecomputeOps) return kOpsRebuilt * layer.total();
  double extra = 0;
  if (modules & kRecomputeCoreAttention) extra += layer.core;
  if (modules & kRecomputeMlp) extra += layer.dense;
  if (modules & kRecomputeLatentUp) extra += layer.latent_up;
  if (modules & kRecomputeMoe)
    extra += layer.router + layer.experts + layer.shared;
  else if (modules & kRecomputeSharedExperts)
    extra += layer.shared;
  return extra;
}

}  // namespace plan
