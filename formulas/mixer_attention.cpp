// Multi-head, grouped-query and multi-query attention: its weights, what its projections and its kernel keep for
// backward, what it computes and what a model file says of it.
// Assumes RoPE in place; a fused kernel keeps one fp32 number a head and token. Sources: Korthikanti et al. 2022,
// arXiv:2205.05198, for the scores; the tensors that TransformerEngine saves. Tested by
// tests/formulas/activation_test.cpp.
#include <algorithm>

#include "formulas/enum_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/part_row.hpp"

namespace plan {

void add_attention_weights(LayerWeights& out, std::int64_t h, const AttentionShape& shape) {
  const std::int64_t q = shape.q(), kv = 2 * shape.kv();
  out.add({.what = shape.output_gate ? "queries with their gate, keys and values" : "queries, keys and values",
           .out = shape.output_gate ? 2 * q : q,
           .in = h,
           .kv_out = kv,
           .kv_heads = shape.kv_heads,
           .linears = 3});
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
  if (!stack.fused_softmax && !stack.fused_pointwise)
    out.keep({Fate::Core, "cw", "the same in fp32, of unfused operations"}, heads * keys * 4);
  if (n.training.dropout > 0)
    out.keep({Fate::Core, "cd", "mask and output of the scores' dropout"}, heads * keys * (1 + n.element));
}

namespace {

template <class V>
void keep(Keeper<V>& out, const LayerSizes<V>& n) {
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

/// Scores over a head's queries and keys, and weighted values, for each head and attended key.
template <class V>
V core_flops(const Layer& layer, double seq, Mask mask) {
  const AttentionShape& shape = layer.attention;
  return 4 * symbol<V>("H", shape.heads, "attention heads", "model") *
         symbol<V>("d", shape.head_dim, "width of a head", "model") * attended<V>("x", seq, shape.window, mask);
}

template <class V>
AttentionWidths<V> widths(const Layer& layer, const V& t) {
  const AttentionShape& shape = layer.attention;
  const V kv = kv_on_rank(shape, t);
  return {true,
          shape.kv_heads < shape.heads,
          symbol<V>("a", shape.heads, "attention heads", "model") / t,
          q_on_rank(shape, t),
          kv,
          kv};
}

void compute(LayerOperators& out, const LayerOnRank& on) {
  const AttentionShape& shape = on.layer.attention;
  const Stack& stack = on.training.stack;
  const double heads = static_cast<double>(shape.heads) / on.t, width = static_cast<double>(shape.head_dim);
  const double q = q_on_rank<double>(shape, on.t), kv = kv_on_rank<double>(shape, on.t);
  const LinearTime in = out.products(on.tokens, {q + (shape.output_gate ? q : 0), kv, kv}, on.hidden, stack.fused_qkv);
  if (on.model.positions == 0) out.pointwise({"rotary embedding", on.tokens, q + kv, 4, 4, 2, 0, kRotaryChain});
  out.attention({.heads = heads,
                 .kv_heads = kv / width,
                 .qk_dim = width,
                 .v_dim = width,
                 .window = shape.window,
                 .fused = !shape.sinks || stack.fused_sinks});
  out.product(on.tokens, on.hidden, q);
  out.messages(on.hidden, on.hidden, in);
}

AttentionShape& shape_of(Layer& layer) { return layer.attention; }

constexpr ShapeField kFields[] = {
    {"heads", [](Layer& l) -> std::int64_t& { return shape_of(l).heads; }, 1, kMostHeads, ShapeField::Need::Required},
    {"kv_heads", [](Layer& l) -> std::int64_t& { return shape_of(l).kv_heads; }, 1, kMostHeads,
     ShapeField::Need::AsBefore},
    {"head_dim", [](Layer& l) -> std::int64_t& { return shape_of(l).head_dim; }, 1, kMostHeads,
     ShapeField::Need::Required},
    {"qkv_bias", [](Layer& l) -> bool& { return shape_of(l).qkv_bias; }},
    {"out_bias", [](Layer& l) -> bool& { return shape_of(l).out_bias; }},
    {"qk_norm", [](Layer& l) -> QkNorm& { return shape_of(l).qk_norm; }},
    {"sinks", [](Layer& l) -> bool& { return shape_of(l).sinks; }},
    {"output_gate", [](Layer& l) -> bool& { return shape_of(l).output_gate; }},
    {.key = "window",
     .of = [](Layer& l) -> std::int64_t& { return shape_of(l).window; },
     .most = kMostWindow,
     .tokens = true},
};
static_assert(kMembers<AttentionShape, std::size(kFields)>);

}  // namespace

constinit const MixerRow kAttentionMixer{
    .mixer = Mixer::Attention,
    .part = part_row<&Layer::mixer, Mixer::Attention, &Layer::attention, add_attention_weights>(
        "attention", kFields, keep<double>, keep<Traced>),
    .core = MixerCore::Attention,
    .graph = kGraphAttention,
    .rebuilt = kRecomputeCoreAttention,
    .heads = heads_in<&Layer::attention, &AttentionShape::heads>,
    .kv_heads = [](const Layer& layer) { return layer.attention.kv_heads; },
    .core_flops = counted<core_flops<double>>,
    .traced_core_flops = core_flops<Traced>,
    .widths = widths<double>,
    .traced_widths = widths<Traced>,
    .compute = compute,
};

template void keep_core(Keeper<double>&, const LayerSizes<double>&, const double&);
template void keep_core(Keeper<Traced>&, const LayerSizes<Traced>&, const Traced&);

}  // namespace plan
