// Parameter counts of decoder-only models (plan-formulas(7) A1), and of one rank (C2): sums over the weights that
// mixers and FFNs list. Tested by tests/formulas/parameters_test.cpp and, against published totals, tests/presets.
#include "formulas/parameters.hpp"

#include <algorithm>

#include "formulas/layer_rows.hpp"

namespace plan {
namespace {

/// One norm over `width`.
std::int64_t norm_size(const Model& m, std::int64_t width) { return m.norm_vectors() * width; }

std::int64_t experts_of(const Layer& layer) { return layer.ffn == Ffn::Moe ? layer.moe.experts : 0; }
std::int64_t top_k_of(const Layer& layer) { return layer.ffn == Ffn::Moe ? layer.moe.top_k : 0; }

/// Weights of a layer that one token touches: only `top_k` of the routed experts.
std::int64_t active_size(const Model& model, const Layer& layer) {
  std::int64_t sum = 0;
  for (const Weight& w : layer_weights(model, layer)) sum += (w.expert() ? top_k_of(layer) : 1) * w.numel();
  return sum;
}

/// GEMM weights of a layer that one token touches: neither norms nor biases nor convolutions.
std::int64_t matmul_size(const Model& model, const Layer& layer) {
  std::int64_t sum = 0;
  for (const Weight& w : layer_weights(model, layer))
    if (w.matrix()) sum += (w.expert() ? top_k_of(layer) : 1) * w.numel();
  return sum;
}

/// Layers of one prediction module, its projection of hidden and embedding (2h to h) and three norms.
std::int64_t mtp_size(const Model& m) {
  std::int64_t one = 2 * m.hidden * m.hidden + 3 * norm_size(m, m.hidden);
  for (const int kind : m.mtp.kinds) one += layer_parameters(m, m.kinds[static_cast<std::size_t>(kind)]).total();
  return m.mtp.depth * one;
}

}  // namespace

LayerParameters layer_parameters(const Model& model, const Layer& layer) {
  LayerParameters out;
  for (const Weight& w : layer_weights(model, layer)) {
    if (w.expert())
      out.expert += experts_of(layer) * w.numel();
    else
      (w.spread == Spread::Whole ? out.replicated : out.tensor) += w.numel();
  }
  return out;
}

ModelParameters model_parameters(const Model& model) {
  ModelParameters n;
  const std::int64_t rows = model.vocab * model.hidden;
  n.embedding = rows;
  n.positions = model.positions * model.hidden;
  n.head = (model.tied ? 0 : rows) + (model.head_bias ? model.vocab : 0);
  n.final_norm = norm_size(model, model.hidden) * (model.embedding_norm ? 2 : 1);
  std::int64_t active = 0, matmul = 0;
  for (std::size_t k = 0; k < model.kinds.size(); ++k) {
    const Layer& kind = model.kinds[k];
    const std::int64_t count = std::count(model.layers.begin(), model.layers.end(), static_cast<int>(k));
    n.layers += count * layer_parameters(model, kind).total();
    active += count * active_size(model, kind);
    matmul += count * matmul_size(model, kind);
  }
  const std::int64_t outside = n.embedding + n.positions + n.head + n.final_norm;
  n.mtp = mtp_size(model);
  n.total = outside + n.layers;
  n.with_mtp = n.total + n.mtp;
  n.active = outside + active;
  n.matmul = rows + matmul;
  return n;
}

RankParameters rank_parameters(const Model& model, const Layer& layer, int tp, int ep, int etp) {
  RankParameters rank;
  for (const Weight& w : layer_weights(model, layer)) {
    const double elements = w.rows_on_rank(tp, etp) * w.columns_on_rank(tp, etp);
    (w.expert() ? rank.expert : rank.dense) += elements;
  }
  rank.expert *= static_cast<double>(experts_of(layer)) / ep;
  return rank;
}

std::int64_t linears_of(const Weight& weight, const Stack& stack) {
  const bool fused = weight.part == LayerPart::Mixer ? stack.fused_qkv : stack.fused_gate;
  return fused ? 1 : weight.linears;
}

std::int64_t adapter_size(const Weight& weight, const Training& training) {
  const Lora& lora = training.lora;
  const bool carries =
      weight.part == LayerPart::Mixer || weight.part == LayerPart::LatentUp ? lora.attention : lora.ffn;
  if (!carries || !weight.matrix() || !weight.linear) return 0;
  return lora.rank * (linears_of(weight, training.stack) * weight.in + weight.out + weight.kv_out);
}

RankParameters adapter_parameters(const Model& model, const Layer& layer, const Training& training, int tp, int ep,
                                  int etp) {
  std::int64_t dense = 0, expert = 0;
  for (const Weight& w : layer_weights(model, layer))
    (w.expert() ? expert : dense) += (w.expert() ? experts_of(layer) : 1) * adapter_size(w, training);
  return {static_cast<double>(dense) / tp, static_cast<double>(expert) / ep / etp};
}

double adapter_parameters(const Model& model, const Training& training) {
  double sum = 0;
  for (const int kind : model.layers)
    sum += adapter_parameters(model, model.kinds[static_cast<std::size_t>(kind)], training, 1, 1, 1).total();
  return sum;
}

}  // namespace plan
