#pragma once

#include <cstdint>
#include <string_view>

#include "formulas/layer_weights.hpp"
#include "formulas/layout.hpp"
#include "formulas/mask.hpp"
#include "formulas/model.hpp"
#include "formulas/traced.hpp"
#include "formulas/training.hpp"
#include "formulas/units.hpp"

namespace plan {

/// What counts as useful work (plan-formulas(7) B2). Papers mix these; always say which.
enum class FlopsConvention : std::uint8_t {
  ModelCausal,     ///< every GEMM, router and prediction modules counted; attention as executed
  ModelFull,       ///< the same with the whole s*s of attention
  SixN,            ///< 6 N, no attention
  Palm,            ///< 6 N + 12 L a d_h s
  Megatron,        ///< num_floating_point_operations: no router, padded vocabulary, causal
  Torchtitan,      ///< 6 (N - N_embedding) + 6 L a (d_qk + d_v) s
  DeepSeekCausal,  ///< neither router nor prediction modules, causal
  DeepSeekFull,
};

struct FlopsNote {
  FlopsConvention convention;
  std::string_view name;
  std::string_view counts;
};
inline constexpr FlopsNote kFlopsConventions[] = {
    {FlopsConvention::ModelCausal, "model_causal", "every GEMM; attention as executed under the causal mask"},
    {FlopsConvention::ModelFull, "model_full", "every GEMM; attention over all s*s pairs"},
    {FlopsConvention::SixN, "6n", "6 FLOPs per parameter and token; no attention"},
    {FlopsConvention::Palm, "palm", "6 N + 12 L a d_h s"},
    {FlopsConvention::Megatron, "megatron", "no router, padded vocabulary, causal attention"},
    {FlopsConvention::Torchtitan, "torchtitan", "6 (N - embedding) + 6 L a (d_qk + d_v) s"},
    {FlopsConvention::DeepSeekCausal, "deepseek_causal", "no router, no prediction modules, causal attention"},
    {FlopsConvention::DeepSeekFull, "deepseek_full", "no router, no prediction modules, full attention"},
};

/// Forward FLOPs of one layer for one token, by what the axes split and recomputation repeats.
/// Training costs three times as much: backward is twice the forward.
struct LayerFlops {
  Flops mixer{};      ///< projections of attention, Mamba-2 or DeltaNet; includes latent_up
  Flops latent_up{};  ///< of them, MLA's up-projections
  Flops dense{};      ///< dense FFN
  Flops shared{};     ///< shared experts, projections to and from a latent expert width
  Flops experts{};    ///< the top-k routed experts of a token
  Flops router{};
  Flops core{};  ///< attention scores and values, indexer scores, state scans

  constexpr Flops linear() const { return mixer + dense + shared + experts + router; }
  constexpr Flops total() const { return linear() + core; }
  constexpr LayerFlops& operator+=(const LayerFlops& o) {
    mixer += o.mixer, latent_up += o.latent_up, dense += o.dense, shared += o.shared;
    experts += o.experts, router += o.router, core += o.core;
    return *this;
  }
  bool operator==(const LayerFlops&) const = default;
};

/// `seq` is the length that attention sees: a packed batch passes sum L_i^2 / sum L_i.
[[nodiscard]] LayerFlops layer_flops(const Model& model, const Layer& layer, double seq, Mask mask = Mask::Causal);

/// FLOPs of a token's product with one weight of the layer: multiply and add; of routed experts, those of its top k.
[[nodiscard]] Flops product_flops(const Weight& weight, const Layer& layer);

/// layer_flops().core, with its equation.
[[nodiscard]] Traced traced_core_flops(const Layer& layer, double seq, Mask mask);

/// Forward FLOPs per token of the whole model.
struct ModelFlops {
  LayerFlops layers{};      ///< all layers summed
  LayerFlops mtp_layers{};  ///< layers of the prediction modules, every pass
  Flops head{};             ///< one output projection
  Flops mtp_projections{};  ///< joining hidden state and embedding, 4 h^2 a module
  Flops mtp_heads{};        ///< one more output projection a module

  constexpr Flops linear() const { return layers.linear() + mtp_layers.linear() + head + mtp_projections + mtp_heads; }
  constexpr Flops core() const { return layers.core + mtp_layers.core; }
  constexpr Flops total() const { return linear() + core(); }
};
/// Forward FLOPs of one token in a sequence of `seq` tokens (plan-formulas(7) B1).
[[nodiscard]] ModelFlops model_flops(const Model& model, double seq, Mask mask = Mask::Causal);

/// Choices that some conventions depend on.
struct FlopsOptions {
  int tp = 1;                ///< vocabulary padding of the Megatron convention
  double packed_length = 0;  ///< sum L_i^2 / sum L_i of packed documents; 0 = seq
  /// What is trained beside frozen weights; null: the model itself. Of the conventions that count every GEMM.
  const Training* adapters = nullptr;
};

/// The choices that a job makes.
[[nodiscard]] inline FlopsOptions flops_options(const Training& training, int tp) {
  return {.tp = tp, .packed_length = training.packed_length, .adapters = training.adapters() ? &training : nullptr};
}

/// Forward FLOPs of the adapters that a token meets: 2 a parameter, of routed experts' those of its top k.
[[nodiscard]] Flops adapter_flops(const Model& model, const Training& training);

/// FLOPs per token of one training step (forward and backward, recomputation never counted).
[[nodiscard]] Flops model_flops_per_token(const Model& model, double seq, FlopsConvention convention,
                                          const FlopsOptions& options = {});

/// Share of a Llama layer's forward FLOPs that torchtitan's "selective op" repeats: every second matrix
/// product (wk, wo, w3 of seven).
inline constexpr double kOpsRebuilt = 0.37;

/// Does "selective op" keep any matrix product? It keeps every second call of aten::mm. Products in NVFP4 are calls of
/// torch.nn.functional.scaled_mm (torchao, nvfp4_linear.py), whose operator is in no list of what is kept.
[[nodiscard]] constexpr bool ops_keep_products(Precision precision) { return precision != Precision::Nvfp4; }

/// Forward FLOPs that one fully or selectively recomputed layer repeats, per token. `precision`: of its products.
[[nodiscard]] Flops recompute_flops(const LayerFlops& layer, RecomputeKind kind, std::uint16_t modules,
                                    Precision precision = Precision::Bf16);

}  // namespace plan
