// Forward FLOPs of a decoder per token (plan-formulas(7) B1).
// Tested by tests/formulas/flops_test.cpp against published counts.
#include "formulas/flops.hpp"

#include <vector>

namespace plan {
namespace {

constexpr double real(std::int64_t n) { return static_cast<double>(n); }

/// 2 FLOPs per weight and token: query (twice with an output gate), key, value and output projection.
double attention_linear(double hidden, const AttentionShape& shape) {
  const double q = real(shape.q()), kv = real(shape.kv());
  return 2 * hidden * (q * (shape.output_gate ? 3 : 2) + 2 * kv);
}

/// Scores over d_qk and weighted values over d_v, for each head and attended key.
constexpr double attention_core(double heads, double qk_dim, double v_dim, double attended) {
  return 2 * heads * (qk_dim + v_dim) * attended;
}

double latent_up(const LatentShape& shape) {
  const double heads = real(shape.heads);
  const double query = real(shape.q_rank) * heads * real(shape.qk_dim());  // 0 without a query rank
  return 2 * (query + real(shape.kv_rank) * heads * real(shape.nope_dim + shape.value_dim));
}

double latent_linear(double hidden, const LatentShape& shape) {
  const double heads = real(shape.heads);
  const double query_down = shape.q_rank > 0 ? hidden * real(shape.q_rank) : hidden * heads * real(shape.qk_dim());
  const double down = query_down + hidden * real(shape.kv_rank + shape.rope_dim);
  const double out = heads * real(shape.value_dim) * hidden;
  const double index_width = real(shape.index_heads) * real(shape.index_dim);
  const double indexer = shape.index_heads > 0 ? real(shape.q_rank) * index_width + hidden * real(shape.index_dim) +
                                                     hidden * real(shape.index_heads)
                                               : 0;
  return 2 * (down + out + indexer) + latent_up(shape);
}

/// Sparse attention reads the top-k keys of each query; its indexer still scores all of them.
double latent_core(const LatentShape& shape, double seq, Mask mask) {
  const double attended = attended_tokens(seq, real(shape.index_top_k), mask);
  const double indexer = 2 * real(shape.index_heads) * real(shape.index_dim) * attended_tokens(seq, 0, mask);
  return attention_core(real(shape.heads), real(shape.qk_dim()), real(shape.value_dim), attended) + indexer;
}

double mamba_linear(double hidden, const Mamba2Shape& shape) {
  const double inner = real(shape.heads * shape.head_dim);
  return 2 * hidden * (2 * inner + 2 * real(shape.groups * shape.state) + real(shape.heads)) + 2 * inner * hidden;
}

double mamba_scan(const Mamba2Shape& shape) { return 7 * real(shape.heads * shape.head_dim) * real(shape.state); }

double delta_linear(double hidden, const DeltaNetShape& shape) {
  const double keys = real(shape.key_heads * shape.key_dim), values = real(shape.value_heads * shape.value_dim);
  const double in = 2 * keys + 2 * values + 2 * real(shape.value_heads);
  return 2 * (hidden * in + hidden * values);
}

double delta_scan(const DeltaNetShape& shape) {
  const double keys = real(shape.key_heads * shape.key_dim), values = real(shape.value_heads * shape.value_dim);
  return 2 * (real(shape.conv) * (2 * keys + values) + 4 * values * real(shape.value_dim));
}

void add_mixer(LayerFlops& flops, double hidden, const Layer& layer, double seq, Mask mask) {
  switch (layer.mixer) {
    case Mixer::None: break;
    case Mixer::Attention: {
      const AttentionShape& a = layer.attention;
      flops.mixer = attention_linear(hidden, a);
      flops.core =
          attention_core(real(a.heads), real(a.head_dim), real(a.head_dim), attended_tokens(seq, real(a.window), mask));
      break;
    }
    case Mixer::Latent:
      flops.mixer = latent_linear(hidden, layer.latent);
      flops.latent_up = latent_up(layer.latent);
      flops.core = latent_core(layer.latent, seq, mask);
      break;
    case Mixer::Mamba2:
      flops.mixer = mamba_linear(hidden, layer.mamba);
      flops.core = mamba_scan(layer.mamba);
      break;
    case Mixer::DeltaNet:
      flops.mixer = delta_linear(hidden, layer.delta);
      flops.core = delta_scan(layer.delta);
      break;
  }
}

void add_ffn(LayerFlops& flops, double hidden, const Layer& layer) {
  if (layer.ffn == Ffn::Dense) {
    flops.dense = 2 * (layer.dense.gated ? 3 : 2) * hidden * real(layer.dense.width);
  } else if (layer.ffn == Ffn::Moe) {
    const MoeShape& moe = layer.moe;
    const double matrices = moe.gated ? 3 : 2;
    const double width = moe.latent > 0 ? real(moe.latent) : hidden;
    flops.experts = 2 * matrices * width * real(moe.expert_width) * real(moe.top_k);
    flops.shared = 2 * matrices * hidden * real(moe.shared_width);
    if (moe.latent > 0) flops.shared += 4 * hidden * width;
    if (moe.shared_gate) flops.shared += 2 * hidden;
    flops.router = 2 * hidden * real(moe.experts);
  }
}

}  // namespace

LayerFlops layer_flops(const Model& model, const Layer& layer, double seq, Mask mask) {
  LayerFlops flops;
  add_mixer(flops, real(model.hidden), layer, seq, mask);
  add_ffn(flops, real(model.hidden), layer);
  return flops;
}

ModelFlops model_flops(const Model& model, double seq, Mask mask) {
  std::vector<LayerFlops> kinds;
  kinds.reserve(model.kinds.size());
  for (const Layer& kind : model.kinds) kinds.push_back(layer_flops(model, kind, seq, mask));
  ModelFlops flops;
  for (const int kind : model.layers) flops.layers += kinds[static_cast<std::size_t>(kind)];
  const double hidden = real(model.hidden);
  flops.head = 2 * hidden * real(model.vocab);
  for (int module = 0; module < model.mtp.depth; ++module) {
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
