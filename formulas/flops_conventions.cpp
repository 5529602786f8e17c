// What each paper and framework calls model FLOPs (plan-formulas(7) B2).
// Tested by tests/formulas/conventions_test.cpp.
#include "formulas/flops.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/parameters.hpp"

namespace plan {
namespace {

constexpr double real(std::int64_t n) { return static_cast<double>(n); }

/// Megatron counts attention over the whole sequence even where a window would shorten it.
Layer without_window(Layer layer) {
  layer.attention.window = 0;
  return layer;
}

Flops megatron_flops(const Model& model, double seq, int tp) {
  Model plain = model;
  for (Layer& kind : plain.kinds) kind = without_window(kind);
  const ModelFlops flops = model_flops(plain, seq, Mask::Causal);
  const double hidden = real(model.hidden), modules = real(model.mtp.runs());
  double norms = modules * 2 * 3 * hidden;  // counted there as if they were GEMMs
  const auto add_latent_norms = [&](int kind) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
    if (layer.mixer == Mixer::Latent) norms += 2 * real(layer.latent.q_rank + layer.latent.kv_rank);
  };
  for (const int kind : model.layers) add_latent_norms(kind);
  for (int run = 0; run < model.mtp.runs(); ++run)
    for (const int kind : model.mtp.kinds) add_latent_norms(kind);
  const double heads = 2 * hidden * real(padded_vocab(model.vocab, tp)) * (1 + modules);
  const Flops layers = flops.layers.total() - flops.layers.router + flops.mtp_layers.total() - flops.mtp_layers.router;
  return 3 * (layers + Flops(heads) + flops.mtp_projections + Flops(norms));
}

/// Core attention of every layer over s keys, no window: the L a d_h s of PaLM and torchtitan.
Flops full_attention(const Model& model, double seq) {
  Flops sum{};
  for (const int kind : model.layers) {
    Layer layer = without_window(model.kinds[static_cast<std::size_t>(kind)]);
    layer.latent.index_heads = layer.latent.index_top_k = 0;
    const MixerRow& mixer = mixer_row(layer.mixer);
    if (mixer.core == MixerCore::Attention) sum += mixer.core_flops(layer, seq, Mask::Full);
  }
  return sum;
}

Flops deepseek_flops(const Model& model, double seq, Mask mask) {
  const ModelFlops flops = model_flops(model, seq, mask);
  return 3 * (flops.layers.total() - flops.layers.router + flops.head);
}

/// Frozen weights have no gradient of their own: their products run twice, attention and adapters three times.
Flops computed_flops(const Model& model, double seq, Mask mask, const Training* adapters) {
  const ModelFlops flops = model_flops(model, seq, mask);
  if (adapters == nullptr) return 3 * flops.total();
  return 2 * flops.linear() + 3 * flops.core() + 3 * adapter_flops(model, *adapters);
}

}  // namespace

Flops adapter_flops(const Model& model, const Training& training) {
  Flops sum{};
  for (const int kind : model.layers) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
    const RankParameters adapter = adapter_parameters(model, layer, training, 1, 1, 1);
    sum += Flops(2 * adapter.dense);
    if (layer.ffn == Ffn::Moe) sum += Flops(2 * adapter.expert * real(layer.moe.top_k) / real(layer.moe.experts));
  }
  return sum;
}

Flops model_flops_per_token(const Model& model, double seq, FlopsConvention convention, const FlopsOptions& options) {
  const double length = options.packed_length > 0 ? options.packed_length : seq;
  switch (convention) {
    case FlopsConvention::ModelCausal: return computed_flops(model, length, Mask::Causal, options.adapters);
    case FlopsConvention::ModelFull: return computed_flops(model, length, Mask::Full, options.adapters);
    case FlopsConvention::SixN: return Flops(6 * real(model_parameters(model).active));
    case FlopsConvention::Palm:
      return Flops(6 * real(model_parameters(model).active)) + 3 * full_attention(model, length);
    case FlopsConvention::Megatron: return megatron_flops(model, length, options.tp);
    case FlopsConvention::Torchtitan: {
      const ModelParameters parameters = model_parameters(model);
      // A tied embedding is also the head: its GEMM is real work and stays counted.
      const std::int64_t embedding = model.tied ? 0 : parameters.embedding;
      return Flops(6 * real(parameters.active - embedding)) + 3 * full_attention(model, length);
    }
    case FlopsConvention::DeepSeekCausal: return deepseek_flops(model, length, Mask::Causal);
    case FlopsConvention::DeepSeekFull: return deepseek_flops(model, length, Mask::Full);
  }
  return {};
}

}  // namespace plan
