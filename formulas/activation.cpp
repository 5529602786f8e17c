// What a layer keeps from its forward to its backward pass (plan-formulas(7) D1-D4): the norms and what precedes
// them here, each mixer and FFN in a file of its own. Tested by tests/formulas/activation_test.cpp against published
// byte counts, and reported to the reader of `plan explain` by the same lines.
#include "formulas/activation.hpp"

#include <array>
#include <bit>

#include "formulas/flops.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/layer_trail.hpp"

namespace plan {
namespace {

/// A norm's input, and what it keeps beside it.
struct NormTensors {
  Tensor input, behind, copies, output;
};
constexpr NormTensors kMixerNorm = {
    {Fate::MixerInput, "mi", "input of the mixer's norm", kOffloadAttentionNorm},
    {Fate::MixerInput, "mb", "input of the norm behind the mixer", kOffloadAttentionNorm},
    {Fate::MixerInput, "mc", "fp32 copy and normalised input of a norm that is not fused", kOffloadAttentionNorm},
    {Fate::MixerNorm, "mn", "input of the mixer's first GEMM", kOffloadQkvLinear}};
constexpr NormTensors kFfnNorm = {
    {Fate::FfnInput, "fi", "input of the FFN's norm", kOffloadMlpNorm},
    {Fate::FfnInput, "fb", "input of the norm behind the FFN", kOffloadMlpNorm},
    {Fate::FfnInput, "fc", "fp32 copy and normalised input of a norm that is not fused", kOffloadMlpNorm},
    {Fate::FfnNorm, "fn", "input of the FFN's first GEMM", 0}};

/// `output`: a trained linear reads what the norm made. Gemma has a norm behind each part too (`norms` 4).
template <class V>
void keep_norm(Keeper<V>& out, const LayerSizes<V>& n, const NormTensors& tensors, bool output) {
  const Stack& stack = n.training.stack;
  out.keep(tensors.input, n.element * n.hidden / n.r);
  if (n.layer.norms == 4) out.keep(tensors.behind, n.element * n.hidden / n.r);
  // the fp32 copy's other two bytes, the normalised input
  if (!stack.fused_norms && n.model.norm == Norm::Rms) out.keep(tensors.copies, 4 * n.hidden / n.r);
  if (output) out.keep(tensors.output, stack.keeps_gathered ? n.input * n.hidden : n.input * n.hidden / n.r);
}

/// All tensors of a layer, in bytes of a token. Inputs of frozen linears need no keeping: only an adapter on them makes
/// a weight gradient.
template <class V>
void keep_layer(Keeper<V>& out, const LayerSizes<V>& n) {
  const Layer& layer = n.layer;
  const Training& training = n.training;
  const bool mixer = layer.mixer != Mixer::None, ffn = layer.ffn != Ffn::None;
  const bool parallel = mixer && ffn && layer.norms == 1;  // Falcon: one norm feeds both
  if (mixer) keep_norm(out, n, kMixerNorm, !training.adapters() || training.lora.attention);
  mixer_row(layer.mixer).part.keep_of(out, n);
  if (ffn && !parallel)
    keep_norm(out, n, kFfnNorm, !training.adapters() || training.lora.ffn || layer.ffn != Ffn::Dense);
  ffn_row(layer.ffn).part.keep_of(out, n);
  const V norms = symbol<V>("l_n", layer.norms, "norms of the layer", "model");
  out.keep({Fate::Statistics, "st", "statistics of norms: fp32"}, (n.model.norm == Norm::Layer ? 8 : 4) * norms / n.r);
  if (training.dropout > 0)
    out.keep({Fate::Masks, "dr", "dropout masks: one byte an element"}, (mixer && ffn ? 2 : 1) * n.hidden / n.r);
}

LayerLedger ledger_without(unsigned away, const Model& model, const Layer& layer, const Training& training,
                           const Layout& layout) {
  Keeper<double> out(away);
  keep_layer(out, LayerSizes<double>(model, layer, training, layout));
  out.ledger().scale(rank_tokens(training, layout));
  return out.ledger();
}

/// Where no product is kept: the layer's input, what tensor ranks summed in its middle, the attention kernel's output.
/// As where products are kept, one tensor as wide as the model is counted for the layer's end: the policy names none in
/// NVFP4, and the published run holds as much.
template <class V>
V kept_beside_products(const LayerSizes<V>& n, const V& core) {
  V elements = (n.layout.tp > 1 ? 3 : 2) * n.hidden / n.r;
  if (n.layer.mixer == Mixer::Attention) elements = elements + q_on_rank(n.layer.attention, n.t);
  return n.tokens * n.element * elements + core;
}

/// A token's outputs of the first, third, ... matrix product, the layer's input and the attention kernel's output.
/// Where tensor ranks share the sequence, the last product of a dense FFN is whole before it is scattered, and what the
/// mixer's and the FFN's scatter leave is kept too.
template <class V>
V kept_by_ops(const LayerSizes<V>& n, const V& total, const V& core) {
  const Layer& layer = n.layer;
  if (!ops_keep_products(n.precision)) return smaller(total, kept_beside_products(n, core));
  const bool scatters = n.layout.sequence_parallel && n.layout.tp > 1;
  const V part = n.hidden / n.r;
  V elements = part + (scatters && layer.ffn == Ffn::Dense ? n.hidden : part);  // input, output of the last product
  if (scatters) elements = elements + 2 * part;
  if (layer.mixer == Mixer::Attention)
    elements = elements + (2 * q_on_rank(layer.attention, n.t) + kv_on_rank(layer.attention, n.t));
  if (layer.ffn == Ffn::Dense)
    elements = elements + symbol<V>("f", layer.dense.width, "width of the FFN", "model") / n.t;
  if (layer.ffn == Ffn::Moe) {
    const V width = symbol<V>("f", layer.moe.expert_width, "width of an expert", "model");
    elements = elements + width * symbol<V>("k", layer.moe.top_k, "experts of a token", "model") / n.r;
    elements = elements + symbol<V>("f_s", layer.moe.shared_width, "width of the shared experts", "model") / n.t;
  }
  return smaller(total, n.tokens * n.element * elements + core);
}

template <class V>
V checkpoint(const RankSizes<V>& n) {
  return n.tokens * n.element * n.hidden / n.r;
}

}  // namespace

LayerLedger layer_ledger(const Model& model, const Layer& layer, const Training& training, const Layout& layout) {
  return ledger_without(0, model, layer, training, layout);
}

unsigned leaving_modules(const Layer& layer, const Training& training) {
  unsigned away = training.offload.modules & ~unsigned{mixer_row(layer.mixer).stays};
  const unsigned graphs = training.stack.graph_scopes;
  if (away == 0 || graphs == 0) return away;
  const bool attention = (graphs & kGraphAttention) != 0;
  const bool ffn = (graphs & (layer.ffn == Ffn::Moe ? kGraphRouter : kGraphMlp)) != 0;
  if (attention) away &= ~unsigned{kOffloadAttentionNorm};
  if (layer.ffn == Ffn::Moe ? attention || ffn : attention != ffn) away &= ~unsigned{kOffloadMlpNorm};
  return away;
}

LayerLedger left_on_gpu(const LayerLedger& ledger, const Layer& layer, const Model& model, const Training& training,
                        const Layout& layout) {
  const unsigned away = leaving_modules(layer, training);
  return away == 0 ? ledger : ledger_without(away, model, layer, training, layout);
}

namespace {

constexpr Fates dropped_by(unsigned modules) {
  struct Drop {
    RecomputeModule module;
    Fates fates;
  };
  constexpr Fates kShared = bit_of(Fate::Shared), kActivation = bit_of(Fate::RoutedActivation);
  constexpr Drop kDrops[] = {
      {kRecomputeCoreAttention, bit_of(Fate::Core)},
      {kRecomputeLatentUp, bit_of(Fate::LatentUp)},
      {kRecomputeMlp, bit_of(Fate::Mlp) | bit_of(Fate::MlpActivation)},
      {kRecomputeMlpActivation, bit_of(Fate::MlpActivation)},
      {kRecomputeMoe, bit_of(Fate::Router) | bit_of(Fate::Routed) | bit_of(Fate::RoutedOutput) | kActivation | kShared},
      {kRecomputeMoeActivation, kActivation},
      {kRecomputeSharedExperts, kShared}};
  Fates out = 0;
  for (const Drop& drop : kDrops)
    if (modules & drop.module) out |= drop.fates;
  return out;
}

/// For every set of modules: a search asks millions of times.
constexpr auto kDropped = [] {
  std::array<Fates, kRecomputeOps> all{};
  for (unsigned modules = 0; modules < all.size(); ++modules) all[modules] = dropped_by(modules);
  return all;
}();

}  // namespace

Fates dropped(unsigned modules, bool fused_norms, bool mlp) {
  Fates out = kDropped[modules % kDropped.size()];
  if ((modules & kRecomputeNorm) && !fused_norms) {
    out |= bit_of(Fate::MixerNorm);
    if (!(modules & kRecomputeMlp)) out |= bit_of(Fate::FfnNorm);
  }
  if ((modules & kRecomputeMlp) && fused_norms && mlp) out |= bit_of(Fate::FfnNorm);
  return out;
}

RealBytes kept_selective(const LayerLedger& ledger, unsigned modules, bool fused_norms) {
  RealBytes kept = ledger.total();
  for (Fates left = dropped(modules, fused_norms, ledger[Fate::Mlp] > RealBytes()); left != 0; left &= left - 1)
    kept -= ledger[static_cast<Fate>(std::countr_zero(left))];
  return kept;
}

RealBytes kept_ops(const Model& model, const Layer& layer, const LayerLedger& ledger, const Training& training,
                   const Layout& layout) {
  const LayerSizes<double> sizes(model, layer, training, layout);
  return RealBytes(kept_by_ops(sizes, ledger.total().value, ledger[Fate::Core].value));
}

RealBytes layer_checkpoint(const Model& model, const Training& training, const Layout& layout) {
  return RealBytes(checkpoint(RankSizes<double>(model, training, layout)));
}

std::vector<KeptTensor> kept_tensors(const Model& model, const Layer& layer, const Training& training,
                                     const Layout& layout) {
  const LayerSizes<Traced> n(model, layer, training, layout);
  Keeper<Traced> out(n.tokens);
  keep_layer(out, n);
  return std::move(out.tensors());
}

Traced traced_ops(const Model& model, const Layer& layer, const Traced& total, const Traced& core,
                  const Training& training, const Layout& layout) {
  return kept_by_ops(LayerSizes<Traced>(model, layer, training, layout), total, core);
}

Traced traced_checkpoint(const Model& model, const Training& training, const Layout& layout) {
  return checkpoint(RankSizes<Traced>(model, training, layout));
}

}  // namespace plan
