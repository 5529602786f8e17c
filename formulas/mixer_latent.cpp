// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434) and its sparse indexer (DeepSeek-V3.2): its weights, what
// it keeps, what it computes and what a model file says of it.
// Assumes that latents are kept before and behind their norms and that heads are split by tensor parallelism, latents
// with the sequence alone. Source: the tensors that TransformerEngine and Megatron-LM save. Tested by
// tests/formulas/activation_test.cpp.
#include <algorithm>

#include "formulas/enum_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/part_row.hpp"

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

namespace {

template <class V>
void keep(Keeper<V>& out, const LayerSizes<V>& n) {
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

/// Sparse attention reads the top-k keys of each query; its indexer still scores all of them.
template <class V>
V core_flops(const Layer& layer, double seq, Mask mask) {
  const LatentShape& shape = layer.latent;
  const V widths = symbol<V>("d_k", shape.qk_dim(), "width of queries and keys of a head", "model") +
                   symbol<V>("d_v", shape.value_dim, "width of a head's values", "model");
  V core = 2 * symbol<V>("H", shape.heads, "attention heads", "model") * widths *
           attended<V>("x", seq, shape.index_top_k, mask);
  if (shape.index_heads == 0) return core;
  return core + 2 * symbol<V>("H_i", shape.index_heads, "heads of the indexer", "model") *
                    symbol<V>("d_i", shape.index_dim, "width of each", "model") * attended<V>("y", seq, 0, mask);
}

template <class V>
AttentionWidths<V> widths(const Layer& layer, const V& t) {
  const LatentShape& shape = layer.latent;
  const V heads = symbol<V>("a", shape.heads, "attention heads", "model") / t;
  const V qk = heads * symbol<V>("d_k", shape.qk_dim(), "width of a head's queries and keys", "model");
  return {true, false, heads, qk, qk, heads * symbol<V>("d_v", shape.value_dim, "width of a head's values", "model")};
}

double real(std::int64_t n) { return static_cast<double>(n); }

/// The down-projections are whole on every tensor rank and run on its shard of the sequence.
LinearTime project(LayerOperators& out, const LayerOnRank& on) {
  const LatentShape& shape = on.layer.latent;
  const double heads = real(shape.heads) / on.t, qk = real(shape.qk_dim()), q_rank = real(shape.q_rank);
  LinearTime up{};
  if (shape.q_rank > 0) {
    out.product(on.shard_tokens, q_rank, on.hidden);
    up = out.product(on.tokens, heads * qk, q_rank, kRecomputeLatentUp);
  } else {
    up = out.product(on.tokens, heads * qk, on.hidden);
  }
  out.product(on.shard_tokens, real(shape.kv_rank + shape.rope_dim), on.hidden);
  out.product(on.tokens, heads * real(shape.nope_dim + shape.value_dim), real(shape.kv_rank), kRecomputeLatentUp);
  out.pointwise({"norms of the latents", on.shard_tokens, real(shape.q_rank + shape.kv_rank), 4, 6, 2, 0,
                 norm_chain(on.model, on.training.stack)});
  out.pointwise({"rotary embedding and concatenation", on.tokens, heads * qk, 8, 8, 3, 0, kRotaryChain});
  return up;
}

void compute(LayerOperators& out, const LayerOnRank& on) {
  const LatentShape& shape = on.layer.latent;
  const double heads = real(shape.heads) / on.t, v = real(shape.value_dim);
  const LinearTime up = project(out, on);
  if (shape.index_heads > 0) {
    const double ih = real(shape.index_heads), id = real(shape.index_dim);
    out.product(on.shard_tokens, ih * id, real(std::max<std::int64_t>(shape.q_rank, 1)));
    out.product(on.shard_tokens, id + ih, on.hidden);
    out.attention({.heads = ih, .kv_heads = 1, .qk_dim = id, .v_dim = 0});
  }
  out.attention({.heads = heads,
                 .kv_heads = heads,
                 .qk_dim = real(shape.qk_dim()),
                 .v_dim = v,
                 .top_k = shape.index_top_k});  // which another layer's indexer may have chosen
  out.product(on.tokens, on.hidden, heads * v);
  out.messages(real(shape.q_rank + shape.kv_rank + shape.rope_dim), on.hidden, up);
}

LatentShape& shape_of(Layer& layer) { return layer.latent; }

constexpr ShapeField kFields[] = {
    {"heads", [](Layer& l) -> std::int64_t& { return shape_of(l).heads; }, 1, kMostHeads, kRequired},
    {"q_rank", [](Layer& l) -> std::int64_t& { return shape_of(l).q_rank; }, 0, kMostRank},
    {"kv_rank", [](Layer& l) -> std::int64_t& { return shape_of(l).kv_rank; }, 1, kMostRank, kRequired},
    {"nope_dim", [](Layer& l) -> std::int64_t& { return shape_of(l).nope_dim; }, 0, kMostHeads, kRequired},
    {"rope_dim", [](Layer& l) -> std::int64_t& { return shape_of(l).rope_dim; }, 0, kMostHeads, kRequired},
    {"value_dim", [](Layer& l) -> std::int64_t& { return shape_of(l).value_dim; }, 1, kMostHeads, kRequired},
    {"index_heads", [](Layer& l) -> std::int64_t& { return shape_of(l).index_heads; }, 0, kMostHeads},
    {"index_dim", [](Layer& l) -> std::int64_t& { return shape_of(l).index_dim; }, 0, kMostHeads},
    {.key = "index_top_k",
     .of = [](Layer& l) -> std::int64_t& { return shape_of(l).index_top_k; },
     .most = kMostWindow,
     .tokens = true},
};
static_assert(kMembers<LatentShape, std::size(kFields)>);

}  // namespace

constinit const MixerRow kLatentMixer{
    .mixer = Mixer::Latent,
    .part = part_row<&Layer::mixer, Mixer::Latent, &Layer::latent, add_latent_weights>("latent", kFields, keep<double>,
                                                                                       keep<Traced>),
    .core = MixerCore::Attention,
    .graph = kGraphAttention,
    .rebuilt = kRecomputeCoreAttention | kRecomputeLatentUp,
    .heads = heads_in<&Layer::latent, &LatentShape::heads>,
    .core_flops = counted<core_flops<double>>,
    .traced_core_flops = core_flops<Traced>,
    .widths = widths<double>,
    .traced_widths = widths<Traced>,
    .compute = compute,
};

}  // namespace plan
