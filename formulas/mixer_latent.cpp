// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434) and its sparse indexer (DeepSeek-V3.2): what it keeps.
// Assumes that latents are kept before and behind their norms and that heads are split by tensor parallelism, latents
// with the sequence alone. Source: the tensors that TransformerEngine and Megatron-LM save. Tested by
// tests/formulas/activation_test.cpp.
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"

namespace plan {

/// Down-projections and their norms on every rank, up-projections and output split by heads. The indexer projects its
/// queries from the compressed ones where there are any.
void add_latent_weights(LayerWeights& out, std::int64_t h, const LatentShape& shape) {
  constexpr Spread kWhole = Spread::Whole;
  const std::int64_t queries = shape.heads * shape.qk_dim();
  if (shape.q_rank > 0) {
    out.add({.what = "down-projection of queries", .spread = kWhole, .out = shape.q_rank, .in = h});
    out.add({.what = "up-projection of queries", .part = LayerPart::LatentUp, .out = queries, .in = shape.q_rank});
    out.add({.what = "norm of compressed queries", .spread = kWhole, .out = shape.q_rank});
  } else {
    out.add({.what = "queries", .out = queries, .in = h});
  }
  out.add({.what = "down-projection of keys and values, rotated keys",
           .spread = kWhole,
           .out = shape.kv_rank + shape.rope_dim,
           .in = h});
  out.add({.what = "up-projection of keys and values",
           .part = LayerPart::LatentUp,
           .out = shape.heads * (shape.nope_dim + shape.value_dim),
           .in = shape.kv_rank});
  out.add({.what = "norm of compressed keys and values", .spread = kWhole, .out = shape.kv_rank});
  out.add({.what = "output projection", .out = h, .in = shape.heads * shape.value_dim, .second = true});
  if (shape.index_heads == 0) return;
  const std::int64_t width = shape.q_rank > 0 ? shape.q_rank : h;
  out.add({.what = "indexer's queries",
           .spread = kWhole,
           .out = shape.index_heads * shape.index_dim,
           .in = width,
           .linear = false});
  out.add({.what = "indexer's key", .spread = kWhole, .out = shape.index_dim, .in = h, .linear = false});
  out.add(
      {.what = "weights of the indexer's heads", .spread = kWhole, .out = shape.index_heads, .in = h, .linear = false});
  out.add({.what = "norm of the indexer's key", .spread = kWhole, .out = 2 * shape.index_dim});
}

template <class V>
void keep_latent(Keeper<V>& out, const LayerSizes<V>& n) {
  const LatentShape& shape = n.layer.latent;
  const V heads = symbol<V>("a", shape.heads, "attention heads", "model") / n.t;
  const V ranks = symbol<V>("c", shape.q_rank + shape.kv_rank, "ranks of the compressed queries and keys", "model");
  const V width = symbol<V>("d_v", shape.value_dim, "width of a head's values", "model");
  const V values = heads * width;
  out.keep({Fate::Mixer, "lc", "compressed queries and keys, before and behind their norms"},
           (n.element + n.input) * ranks / n.r);
  out.keep({Fate::Mixer, "ao", "the attention's output", kOffloadAttentionProjection}, n.element * values);
  if (n.quantised) out.keep({Fate::Mixer, "aq", "that output as its projection reads it: quantised"}, n.input * values);
  if (keeps_output_twice(n.training, n.layout))
    out.keep({Fate::Mixer, "ar", "that output in the order of the kernel"}, n.element * values);
  if (shape.index_heads > 0) {
    const V index_heads = symbol<V>("a_i", shape.index_heads, "heads of the indexer", "model");
    const V index_width = symbol<V>("d_i", shape.index_dim, "width of each", "model");
    const V chosen = symbol<V>("k_i", shape.index_top_k, "keys that a query attends to", "model");
    out.keep({Fate::Mixer, "iq", "indexer: queries, its key and the input of the key's norm"},
             n.element * (index_heads + 2) * index_width / n.r);
    out.keep({Fate::Mixer, "iw", "indexer: weights of its heads, fp32"}, 4 * index_heads / n.r);
    out.keep({Fate::Mixer, "ip", "indexer: chosen positions, 8 bytes each"}, 8 * chosen / n.r);
  }
  const V keys = symbol<V>("d_k", shape.qk_dim(), "width of a head's queries and keys", "model");
  out.keep({Fate::LatentUp, "lu", "queries, keys and values behind the up-projections", kOffloadCoreAttention},
           n.element * heads * (2 * keys + width));
  keep_core(out, n, heads);
  out.keep({Fate::Statistics, "ls", "statistics of the latents' norms: fp32"}, (shape.q_rank > 0 ? 8 : 4) / n.r);
}

template void keep_latent(Keeper<double>&, const LayerSizes<double>&);
template void keep_latent(Keeper<Traced>&, const LayerSizes<Traced>&);

}  // namespace plan
