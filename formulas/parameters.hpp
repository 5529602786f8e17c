#pragma once

#include <cstdint>

#include "formulas/layer_weights.hpp"
#include "formulas/layout.hpp"
#include "formulas/model.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Parameters of one layer, by the axis that splits them (plan-formulas(7) A1, C2).
struct LayerParameters {
  std::int64_t tensor = 0;      ///< column and row linears of mixer, dense and shared FFN: split by tp
  std::int64_t replicated = 0;  ///< norms, router, latent down-projections: whole on every tp rank
  std::int64_t expert = 0;      ///< routed experts: split by ep and etp
  std::int64_t total() const { return tensor + replicated + expert; }
  bool operator==(const LayerParameters&) const = default;
};

/// Exact parameters of one layer of the unsplit model.
[[nodiscard]] LayerParameters layer_parameters(const Model& model, const Layer& layer);

/// Parameters of the whole model.
struct ModelParameters {
  std::int64_t embedding = 0;
  std::int64_t positions = 0;
  std::int64_t head = 0;  ///< 0 when tied
  std::int64_t layers = 0;
  std::int64_t final_norm = 0;  ///< with the embedding norm
  std::int64_t mtp = 0;         ///< prediction modules, without copies of embedding and head
  std::int64_t total = 0;       ///< trained parameters, mtp not included: the number on the model card
  std::int64_t with_mtp = 0;
  std::int64_t active = 0;  ///< weights one token touches, embedding and head included
  std::int64_t matmul = 0;  ///< GEMM weights one token meets: head included, embedding not
};
[[nodiscard]] ModelParameters model_parameters(const Model& model);

/// Vocabulary padded so that every tp rank holds the same number of rows: ceil(V/(128 t)) 128 t.
[[nodiscard]] constexpr std::int64_t padded_vocab(std::int64_t vocab, int tp, std::int64_t multiple = 128) {
  const std::int64_t unit = multiple * tp;
  return (vocab + unit - 1) / unit * unit;
}

/// Parameters that one rank holds of a layer. KV heads fewer than tp are replicated.
struct RankParameters {
  double dense = 0;   ///< reduced over the dense data-parallel group (dp * cp)
  double expert = 0;  ///< reduced over the expert data-parallel group
  double total() const { return dense + expert; }
};
[[nodiscard]] RankParameters rank_parameters(const Model& model, const Layer& layer, int tp, int ep, int etp);

/// Linears of one weight in a stack, each of which may carry an adapter: queries, keys and values are one where they
/// are fused, as in Megatron, and three in transformers, of whose linears PEFT adapts each.
[[nodiscard]] std::int64_t linears_of(const Weight& weight, const Stack& stack);

/// Parameters of the adapters on one weight, unsplit: r (in + out) for each of its linears (Hu et al. 2021,
/// arXiv:2106.09685); 0 if it carries none.
[[nodiscard]] std::int64_t adapter_size(const Weight& weight, const Training& training);

/// Adapter parameters of one layer on one rank under LoRA, with an adapter for each expert, all split by tp as
/// Megatron's parallel adapters are. The router carries none.
[[nodiscard]] RankParameters adapter_parameters(const Model& model, const Layer& layer, const Training& training,
                                                int tp, int ep, int etp);
/// Of all layers, unsplit.
[[nodiscard]] double adapter_parameters(const Model& model, const Training& training);

}  // namespace plan
