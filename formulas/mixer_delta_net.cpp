// Gated DeltaNet (arXiv:2412.06464, as in Qwen3-Next): its weights, what its chunked kernel keeps for backward, what it
// computes and what a model file says of it.
// Inputs and outputs of the short convolutions, keys repeated to the value heads, decay and write gates in fp32, the
// triangular blocks of the chunked rule, output gate and output. Source: arguments that the kernels save
// (flash-linear-attention). Context ranks exchange their tokens of all projected inputs for heads of all tokens, and
// the output back (Megatron core 0.18 ssm/gated_delta_net.py). Tested by tests/formulas/activation_test.cpp.
#include "formulas/enum_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/part_row.hpp"

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

namespace {

template <class V>
V key_width(const DeltaNetShape& shape) {
  return symbol<V>("d_k", shape.key_dim, "width of a head's keys", "model");
}

template <class V>
V keys_of(const DeltaNetShape& shape) {
  return symbol<V>("g", shape.key_heads, "key heads", "model") * key_width<V>(shape);
}

template <class V>
V heads_of(const DeltaNetShape& shape) {
  return symbol<V>("a", shape.value_heads, "value heads", "model");
}

template <class V>
V value_width(const DeltaNetShape& shape) {
  return symbol<V>("d_v", shape.value_dim, "width of a head's values", "model");
}

template <class V>
V values_of(const DeltaNetShape& shape) {
  return heads_of<V>(shape) * value_width<V>(shape);
}

/// The rule itself, of a token on as many ranks as share its values.
template <class V>
V rule_flops(const DeltaNetShape& shape, const V& values) {
  return 2 * 4 * values * value_width<V>(shape);
}

template <class V>
void keep(Keeper<V>& out, const LayerSizes<V>& n) {
  const DeltaNetShape& shape = n.layer.delta;
  constexpr double kChunk = 64;  // tokens of a block
  const V heads = heads_of<V>(shape) / n.t, key = key_width<V>(shape);
  const V keys = keys_of<V>(shape) / n.t, values = values_of<V>(shape) / n.t;
  out.keep({Fate::Mixer, "cv", "queries, keys and values before and behind the short convolution"},
           n.element * 2 * (2 * keys + values));
  out.keep({Fate::Mixer, "kr", "queries and keys repeated for every value head"}, n.element * 2 * heads * key);
  out.keep({Fate::Mixer, "tb", "triangular blocks of 64 tokens"},
           n.element * heads * symbol<V>("b", kChunk, "tokens of a block", "stack"));
  out.keep({Fate::Mixer, "do", "output of the rule and the logits of its gate"}, n.element * 2 * values);
  out.keep({Fate::Mixer, "go", "input of the output projection"}, n.input * values);
  out.keep({Fate::Mixer, "dg", "decay, its logarithm and the write gate: fp32"}, 12 * heads);
}

template <class V>
ScanWidths<V> scan_widths(const Layer& layer, const V& t, const V&) {
  const DeltaNetShape& shape = layer.delta;
  const V values = values_of<V>(shape);
  return {(2 * keys_of<V>(shape) + 2 * values + 2 * heads_of<V>(shape)) / t, values / t};
}

/// Convolution and chunked rule.
template <class V>
V core_flops(const Layer& layer, double, Mask) {
  const DeltaNetShape& shape = layer.delta;
  const V keys = keys_of<V>(shape), values = values_of<V>(shape);
  return 2 * symbol<V>("c", shape.conv, "taps of the convolution", "model") * (2 * keys + values) +
         rule_flops<V>(shape, values);
}

void compute(LayerOperators& out, const LayerOnRank& on) {
  const DeltaNetShape& shape = on.layer.delta;
  const double keys = keys_of<double>(shape) / on.t, values = values_of<double>(shape) / on.t;
  const LinearTime in = out.product(on.tokens, 2 * keys + 2 * values, on.hidden);
  const ScanWidths<double> widths = scan_widths(on.layer, on.t, on.c);
  out.scan({.flops = Flops(rule_flops<double>(shape, values) * on.tokens),
            .width = 2 * keys + values,
            .read = widths.in,
            .written = widths.out});
  out.product(on.tokens, on.hidden, values);
  out.messages(on.hidden, on.hidden, in);
}

constexpr ShapeField kFields[] = {
    {"key_heads", [](Layer& l) -> std::int64_t& { return l.delta.key_heads; }, 1, kMostHeads, kRequired},
    {"value_heads", [](Layer& l) -> std::int64_t& { return l.delta.value_heads; }, 1, kMostHeads, kRequired},
    {"key_dim", [](Layer& l) -> std::int64_t& { return l.delta.key_dim; }, 1, kMostHeads, kRequired},
    {"value_dim", [](Layer& l) -> std::int64_t& { return l.delta.value_dim; }, 1, kMostHeads, kRequired},
    {"conv", [](Layer& l) -> std::int64_t& { return l.delta.conv; }, 1, 1e3, kRequired},
};
static_assert(kMembers<DeltaNetShape, std::size(kFields)>);

}  // namespace

constinit const MixerRow kDeltaNetMixer{
    .mixer = Mixer::DeltaNet,
    .part = part_row<&Layer::mixer, Mixer::DeltaNet, &Layer::delta, add_delta_weights>("delta", kFields, keep<double>,
                                                                                       keep<Traced>),
    .core = MixerCore::Scan,
    .graph = kGraphAttention,
    .stays = kOffloadQkvLinear,  // core_v0.19.0, ssm/gated_delta_net.py: no part of it is wrapped, its norm is
    .heads = heads_in<&Layer::delta, &DeltaNetShape::key_heads, &DeltaNetShape::value_heads>,
    .core_flops = counted<core_flops<double>>,
    .traced_core_flops = core_flops<Traced>,
    .scan_widths = scan_widths<double>,
    .traced_scan_widths = scan_widths<Traced>,
    .spreads_scan =
        [](const Layer& layer, std::int64_t tp, std::int64_t cp) {
          return layer.delta.key_heads % (tp * cp) == 0 && layer.delta.value_heads % (tp * cp) == 0;
        },
    .compute = compute,
};

}  // namespace plan
