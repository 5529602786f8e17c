// Mixture of experts: what router, routed and shared experts keep beside their norm.
// Routed tokens come in copies, one an expert; the most loaded rank holds `routing_imbalance` times the mean. SwiGLU is
// fused with its weighting by the probabilities; GELU and relu^2 keep their unweighted output too. Source: the tensors
// that Megatron-LM and TransformerEngine save. Tested by tests/formulas/activation_test.cpp.
#include "formulas/enum_rows.hpp"
#include "formulas/layer_trail.hpp"
#include "formulas/layer_weights.hpp"
#include "formulas/part_row.hpp"

namespace plan {

/// Routed experts (on a narrower width when latent), shared experts, router and gates. Each expert is counted once
/// here.
void add_moe_weights(LayerWeights& out, std::int64_t h, const MoeShape& shape) {
  constexpr LayerPart kExperts = LayerPart::Experts, kShared = LayerPart::Shared;
  constexpr Spread kWhole = Spread::Whole;
  const std::int64_t gates = shape.gated ? 2 : 1, width = shape.latent > 0 ? shape.latent : h;
  const std::int64_t f = shape.expert_width, s = shape.shared_width;
  out.add({.what = "experts: before the activation",
           .part = kExperts,
           .spread = Spread::Expert,
           .out = gates * f,
           .in = width,
           .linears = gates});
  if (f > 0)
    out.add({.what = "experts: behind the activation",
             .part = kExperts,
             .spread = Spread::Expert,
             .out = width,
             .in = f,
             .second = true});
  out.add(
      {.what = "shared experts: before the activation", .part = kShared, .out = gates * s, .in = h, .linears = gates});
  if (s > 0)
    out.add({.what = "shared experts: behind the activation", .part = kShared, .out = h, .in = s, .second = true});
  if (shape.latent > 0) {
    out.add({.what = "into the experts' width", .part = kShared, .spread = kWhole, .out = shape.latent, .in = h});
    out.add({.what = "out of the experts' width", .part = kShared, .spread = kWhole, .out = h, .in = shape.latent});
  }
  out.add(
      {.what = "router", .part = LayerPart::Router, .spread = kWhole, .out = shape.experts, .in = h, .linear = false});
  if (shape.router_bias)
    out.add({.what = "router's bias", .part = LayerPart::Router, .spread = kWhole, .out = shape.experts});
  if (shape.shared_gate)
    out.add(
        {.what = "gate of the shared experts", .part = kShared, .spread = kWhole, .out = 1, .in = h, .linear = false});
  if (!shape.expert_bias) return;
  out.add(
      {.what = "experts: biases before the activation", .part = kExperts, .spread = Spread::Expert, .out = gates * f});
  out.add(
      {.what = "experts: biases behind the activation", .part = kExperts, .spread = Spread::ExpertWhole, .out = width});
}

namespace {

/// SiLU's output, which an unfused gate multiplies and keeps.
bool keeps_factor(const MoeShape& shape, const Stack& stack) { return shape.gated && !stack.fused_activation; }

template <class V>
void keep_router(Keeper<V>& out, const LayerSizes<V>& n) {
  const MoeShape& shape = n.layer.moe;
  out.keep({Fate::Router, "ro", "router's logits and probabilities: fp32"},
           8 * symbol<V>("E", shape.experts, "experts", "model") / n.r);
  if (shape.latent > 0)
    out.keep({Fate::Router, "rl", "tokens in the experts' narrower space, in and out"},
             2 * n.element * symbol<V>("d", shape.latent, "width that experts see", "model") / n.r);
}

template <class V>
void keep_routed(Keeper<V>& out, const LayerSizes<V>& n) {
  const MoeShape& shape = n.layer.moe;
  const Stack& stack = n.training.stack;
  const V width = symbol<V>("f", shape.expert_width, "width of an expert", "model");
  const V seen = routed_width(n), copies = routed_copies(n);
  const V shared_by = symbol<V>("x_t", n.layout.etp, "ranks that share an expert", "layout");
  out.keep({Fate::Routed, "ei", "routed experts: their input", kOffloadExpertFc1}, copies * n.input * seen * shared_by);
  out.keep({Fate::Routed, "ex", "routed experts: the activation's input", kOffloadMoeActivation},
           copies * activation_input_bytes(n) * gates<V>(shape.gated) * width);
  out.keep({Fate::Routed, "ep", "routed experts: probabilities, fp32"}, copies * 4);
  if (!shape.gated)
    out.keep({Fate::Routed, "eu", "routed experts: the activation's output before it is weighted"},
             copies * n.element * width);
  out.keep({Fate::RoutedActivation, "ea", "routed experts: the activation's output"}, copies * n.input * width);
  if (keeps_factor(shape, stack))
    out.keep({Fate::RoutedActivation, "eg", "routed experts: SiLU's output, which an unfused gate multiplies"},
             copies * n.element * width);
  if (stack.weighs_outputs)
    out.keep({Fate::RoutedOutput, "eo", "outputs of the routed experts: fp32"}, copies * 4 * seen);
  else if (stack.legacy_moe_probs)
    out.keep({Fate::RoutedOutput, "eo", "outputs of the routed experts"}, copies * n.element * seen);
}

template <class V>
void keep_shared(Keeper<V>& out, const LayerSizes<V>& n) {
  const MoeShape& shape = n.layer.moe;
  if (shape.shared_width == 0) return;
  const V width = symbol<V>("f_s", shape.shared_width, "width of the shared experts", "model") / n.t;
  out.keep({Fate::Shared, "sh", "shared experts: the activation's input"},
           activation_input_bytes(n) * gates<V>(shape.gated) * width);
  out.keep({Fate::Shared, "sa", "shared experts: the activation's output"}, n.input * width);
  if (keeps_factor(shape, n.training.stack))
    out.keep({Fate::Shared, "sg", "shared experts: SiLU's output, which an unfused gate multiplies"},
             n.element * width);
}

template <class V>
void keep(Keeper<V>& out, const LayerSizes<V>& n) {
  keep_router(out, n);
  keep_routed(out, n);
  keep_shared(out, n);
}

constexpr double kMostExperts = 1e5;
constexpr ShapeField kFields[] = {
    {"experts", [](Layer& l) -> std::int64_t& { return l.moe.experts; }, 1, kMostExperts, kRequired},
    {"top_k", [](Layer& l) -> std::int64_t& { return l.moe.top_k; }, 1, kMostExperts, kRequired},
    {"expert_width", [](Layer& l) -> std::int64_t& { return l.moe.expert_width; }, 1, kMostWidth, kRequired},
    {"shared_width", [](Layer& l) -> std::int64_t& { return l.moe.shared_width; }, 0, kMostWidth},
    {"gated", [](Layer& l) -> bool& { return l.moe.gated; }},
    {"expert_bias", [](Layer& l) -> bool& { return l.moe.expert_bias; }},
    {"router_bias", [](Layer& l) -> bool& { return l.moe.router_bias; }},
    {"score_bias", [](Layer& l) -> bool& { return l.moe.score_bias; }},
    {"shared_gate", [](Layer& l) -> bool& { return l.moe.shared_gate; }},
    {"latent", [](Layer& l) -> std::int64_t& { return l.moe.latent; }, 0, kMostRank},
};
static_assert(kMembers<MoeShape, std::size(kFields)>);

}  // namespace

constinit const FfnRow kMoeFfn{
    .ffn = Ffn::Moe,
    .part = part_row<&Layer::ffn, Ffn::Moe, &Layer::moe, add_moe_weights>("moe", kFields, keep<double>, keep<Traced>)};

}  // namespace plan
