// Mamba-2 (arXiv:2405.21060): its weights, what its fused kernel keeps for backward, what it computes and what a model
// file says of it.
// mamba_split_conv1d_scan_combined keeps the projected input and the scan's output; the output projection its input;
// the gated norm one number a group. Source: arguments that the kernel saves (state-spaces/mamba). Context ranks
// exchange their tokens of the projected input for heads of all tokens, and the scan's output back; where there are
// more of them than groups on the rank, each takes a copy of its group's B and C (Megatron core
// ssm/mamba_context_parallel.py). Tested by tests/formulas/activation_test.cpp.
#include "formulas/enum_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/part_row.hpp"

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

namespace {

template <class V>
V heads_of(const Mamba2Shape& shape) {
  return symbol<V>("a", shape.heads, "heads of the scan", "model");
}

template <class V>
V inner_of(const Mamba2Shape& shape) {
  return heads_of<V>(shape) * symbol<V>("d", shape.head_dim, "width of a head", "model");
}

/// On one tensor rank.
template <class V>
V groups_of(const Mamba2Shape& shape, const V& t) {
  return symbol<V>("g", shape.groups, "groups that share B and C", "model") / t;
}

/// B or C of so many groups.
template <class V>
V states_of(const Mamba2Shape& shape, const V& groups) {
  return groups * symbol<V>("n", shape.state, "states of a channel", "model");
}

/// B or C on one tensor rank, of which `c` context ranks take at least a group each.
template <class V>
V states_on_rank(const Mamba2Shape& shape, const V& t, const V& c) {
  const V groups = groups_of<V>(shape, t);
  return states_of<V>(shape, value_of(c) > 1 ? larger(groups, c) : groups);
}

/// Projected input on one tensor rank: gate, x, B, C and the time steps.
template <class V>
V projected(const Mamba2Shape& shape, const V& t, const V& c) {
  return (2 * inner_of<V>(shape) + heads_of<V>(shape)) / t + 2 * states_on_rank<V>(shape, t, c);
}

template <class V>
ScanWidths<V> scan_widths(const Layer& layer, const V& t, const V& c) {
  return {projected<V>(layer.mamba, t, c), inner_of<V>(layer.mamba) / t};
}

template <class V>
void keep(Keeper<V>& out, const LayerSizes<V>& n) {
  const Mamba2Shape& shape = n.layer.mamba;
  const V inner = inner_of<V>(shape), c = symbol<V>("c", n.layout.cp, "context-parallel ranks", "layout");
  out.keep({Fate::Mixer, "mx", "projected input: gate, x, B, C and the time steps"},
           n.element * projected<V>(shape, n.t, c));
  out.keep({Fate::Mixer, "so", "output of the scan"}, n.element * inner / n.t);
  out.keep({Fate::Mixer, "go", "input of the output projection"}, n.input * inner / n.t);
  out.keep({Fate::Mixer, "gs", "statistics of the gated norm, one a group: fp32"}, 4 * groups_of<V>(shape, n.t));
}

/// The chunked scan.
template <class V>
V core_flops(const Layer& layer, double, Mask) {
  const Mamba2Shape& shape = layer.mamba;
  return 7 * symbol<V>("H", shape.heads, "heads", "model") *
         symbol<V>("d", shape.head_dim, "width of a head", "model") *
         symbol<V>("n", shape.state, "states of a channel", "model");
}

/// Chunked scan: 7 d_i N FLOPs a token in small batched products; memory traffic of its inputs and states.
void compute(LayerOperators& out, const LayerOnRank& on) {
  const Mamba2Shape& shape = on.layer.mamba;
  const double inner = inner_of<double>(shape) / on.t;
  const LinearTime in = out.product(on.tokens, projected<double>(shape, on.t, 1), on.hidden);
  const ScanWidths<double> widths = scan_widths(on.layer, on.t, on.c);
  out.scan({.flops = Flops(core_flops<double>(on.layer, 0, Mask::Causal) / on.t * on.tokens),
            .width = inner + 2 * states_on_rank<double>(shape, on.t, on.c),
            .read = widths.in,
            .written = widths.out});
  out.product(on.tokens, on.hidden, inner);
  out.messages(on.hidden, on.hidden, in);
}

constexpr ShapeField kFields[] = {
    {"heads", [](Layer& l) -> std::int64_t& { return l.mamba.heads; }, 1, kMostHeads, kRequired},
    {"head_dim", [](Layer& l) -> std::int64_t& { return l.mamba.head_dim; }, 1, kMostHeads, kRequired},
    {"groups", [](Layer& l) -> std::int64_t& { return l.mamba.groups; }, 1, kMostHeads, kRequired},
    {"state", [](Layer& l) -> std::int64_t& { return l.mamba.state; }, 1, kMostHeads, kRequired},
    {"conv", [](Layer& l) -> std::int64_t& { return l.mamba.conv; }, 1, 1e3, kRequired},
};
static_assert(kMembers<Mamba2Shape, std::size(kFields)>);

}  // namespace

constinit const MixerRow kMamba2Mixer{
    .mixer = Mixer::Mamba2,
    .part = part_row<&Layer::mixer, Mixer::Mamba2, &Layer::mamba, add_mamba_weights>("mamba", kFields, keep<double>,
                                                                                     keep<Traced>),
    .core = MixerCore::Scan,
    .graph = kGraphMamba,
    .stays = kOffloadAttentionNorm | kOffloadQkvLinear,  // core_v0.19.0, ssm/mamba_layer.py wraps nothing
    .heads = heads_in<&Layer::mamba, &Mamba2Shape::heads>,
    .core_flops = counted<core_flops<double>>,
    .traced_core_flops = core_flops<Traced>,
    .scan_widths = scan_widths<double>,
    .traced_scan_widths = scan_widths<Traced>,
    .spreads_scan =
        [](const Layer& layer, std::int64_t tp, std::int64_t cp) {
          const std::int64_t groups = layer.mamba.groups / tp;
          return layer.mamba.heads % (tp * cp) == 0 && groups > 0 && (groups % cp == 0 || cp % groups == 0);
        },
    .compute = compute,
};

}  // namespace plan
