// Multi-head, grouped-query and multi-query attention: what its projections and its kernel keep for backward.
// Assumes RoPE in place; a fused kernel keeps one fp32 number a head and token. Sources: Korthikanti et al. 2022,
// arXiv:2205.05198, for the scores; the tensors that TransformerEngine saves. Tested by
// tests/formulas/activation_test.cpp.
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"

namespace plan {

void add_attention_weights(LayerWeights& out, std::int64_t h, const AttentionShape& shape) {
  const std::int64_t q = shape.q(), kv = 2 * shape.kv();
  out.add({.what = shape.output_gate ? "queries with their gate, keys and values" : "queries, keys and values",
           .out = shape.output_gate ? 2 * q : q,
           .in = h,
           .kv_out = kv,
           .kv_heads = shape.kv_heads});
  out.add({.what = "output projection", .out = h, .in = q, .second = true});
  if (shape.qkv_bias)
    out.add({.what = "biases of queries, keys and values", .out = q, .kv_out = kv, .kv_heads = shape.kv_heads});
  if (shape.out_bias) out.add({.what = "bias of the output projection", .spread = Spread::Whole, .out = h});
  if (shape.sinks) out.add({.what = "sinks, one a head", .out = shape.heads});
  if (shape.qk_norm == QkNorm::PerHead)
    out.add({.what = "norms of queries and keys", .spread = Spread::Whole, .out = 2 * shape.head_dim});
  if (shape.qk_norm == QkNorm::Full)
    out.add({.what = "norms of queries and keys", .spread = Spread::Whole, .out = q + shape.kv()});
}

bool keeps_output_twice(const Training& training, const Layout& layout) {
  const bool reordered = layout.cp > 1 && layout.cp_kind != CpKind::Ring;
  return reordered || (training.stack.batch_first_attention && layout.micro_batch > 1);
}

template <class V>
void keep_core(Keeper<V>& out, const LayerSizes<V>& n, const V& heads) {
  const Stack& stack = n.training.stack;
  if (stack.flash_attention) return out.keep({Fate::Core, "co", "row sums of the softmax: fp32"}, 4 * heads);
  const V keys = symbol<V>("s", n.training.seq, "keys that every query meets", "seq");
  out.keep({Fate::Core, "co", "softmax of the scores of every head"}, heads * keys * n.element);
  if (!stack.fused_softmax) out.keep({Fate::Core, "cw", "the same in fp32, of unfused operations"}, heads * keys * 4);
  if (n.training.dropout > 0)
    out.keep({Fate::Core, "cd", "mask and output of the scores' dropout"}, heads * keys * (1 + n.element));
}

template <class V>
void keep_attention(Keeper<V>& out, const LayerSizes<V>& n) {
  const AttentionShape& shape = n.layer.attention;
  const V heads = symbol<V>("a", shape.heads, "attention heads", "model");
  const V q = q_on_rank(shape, n.t), kv = kv_on_rank(shape, n.t);
  out.keep({Fate::Mixer, "qu", "queries", kOffloadCoreAttention}, n.element * q);
  out.keep({Fate::Mixer, "kv",
            n.training.stack.expands_kv ? "keys and values, repeated for every query head" : "keys and values",
            kOffloadCoreAttention},
           2 * n.element * (n.training.stack.expands_kv ? q : kv));
  out.keep({Fate::Mixer, "ao", "the attention's output", kOffloadAttentionProjection}, n.element * q);
  if (n.quantised) out.keep({Fate::Mixer, "aq", "that output as its projection reads it: quantised"}, n.input * q);
  if (keeps_output_twice(n.training, n.layout))
    out.keep({Fate::Mixer, "ar", "that output in the order of the kernel"}, n.element * q);
  if (shape.qk_norm != QkNorm::None) {
    out.keep({Fate::Mixer, "qn", "inputs of the norms of queries and keys"}, n.element * (q + kv));
    const V groups = symbol<V>("g", shape.kv_heads, "heads of keys and values", "model");
    const V rows = shape.qk_norm == QkNorm::Full ? V(2.0) : (heads + groups) / n.t;
    out.keep({Fate::Mixer, "qs", "statistics of these norms, one a head or a row: fp32"}, 4 * rows);
  }
  if (shape.output_gate)
    out.keep({Fate::Mixer, "og", "logits of the output's gate, and the gated output"}, n.element * 2 * q);
  keep_core(out, n, heads / n.t);
}

template void keep_core(Keeper<double>&, const LayerSizes<double>&, const double&);
template void keep_core(Keeper<Traced>&, const LayerSizes<Traced>&, const Traced&);
template void keep_attention(Keeper<double>&, const LayerSizes<double>&);
template void keep_attention(Keeper<Traced>&, const LayerSizes<Traced>&);

}  // namespace plan
