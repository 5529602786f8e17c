// Parameter counts of decoder-only models, block by block (plan-formulas(7) A1), and which parallel axis splits each
// tensor (C2). Tested by tests/formulas/parameters_test.cpp and, against published totals, tests/presets.
#include "formulas/parameters.hpp"

#include <algorithm>

namespace plan {
namespace {

/// Parameters of a layer, fine enough to say how each axis splits them and which are GEMM weights.
struct Parts {
  std::int64_t column = 0;        ///< linears split by tp
  std::int64_t kv = 0;            ///< key and value projections: split by tp, whole KV heads only
  std::int64_t column_other = 0;  ///< biases, sinks, convolutions: split by tp, no GEMM
  std::int64_t whole = 0;         ///< linears that every tp rank holds
  std::int64_t whole_other = 0;   ///< norms and biases that every tp rank holds
  std::int64_t expert = 0;        ///< linears of one routed expert
  std::int64_t expert_split = 0;  ///< biases of one expert, split by etp
  std::int64_t expert_whole = 0;  ///< biases of one expert, whole on each etp rank
};

/// One norm over `width`.
std::int64_t norm_size(const Model& m, std::int64_t width) { return m.norm_vectors() * width; }

/// h q + 2 h kv + q h, with biases, query-key norms, sinks and output gate.
void add_attention(Parts& p, std::int64_t h, const AttentionShape& a) {
  p.column += h * a.q() * (a.output_gate ? 3 : 2);
  p.kv += 2 * h * a.kv();
  if (a.qkv_bias) {
    p.column_other += a.q();
    p.kv += 2 * a.kv();
  }
  if (a.out_bias) p.whole_other += h;
  if (a.sinks) p.column_other += a.heads;
  if (a.qk_norm == QkNorm::PerHead) p.whole_other += 2 * a.head_dim;
  if (a.qk_norm == QkNorm::Full) p.whole_other += a.q() + a.kv();
}

/// Latent attention: down-projections and their norms on every rank, up-projections and output split by heads.
void add_latent(Parts& p, std::int64_t h, const LatentShape& a) {
  if (a.q_rank > 0) {
    p.whole += h * a.q_rank;
    p.whole_other += a.q_rank;
    p.column += a.q_rank * a.heads * a.qk_dim();
  } else {
    p.column += h * a.heads * a.qk_dim();
  }
  p.whole += h * (a.kv_rank + a.rope_dim);
  p.whole_other += a.kv_rank;
  p.column += a.kv_rank * a.heads * (a.nope_dim + a.value_dim) + a.heads * a.value_dim * h;
  if (a.index_heads > 0) {
    const std::int64_t query_width = a.q_rank > 0 ? a.q_rank : h;
    p.whole += query_width * a.index_heads * a.index_dim + h * a.index_dim + h * a.index_heads;
    p.whole_other += 2 * a.index_dim;
  }
}

/// Mamba-2: one input projection (gate, x, B, C, dt), a convolution, A, D, dt bias, a gated norm, the output.
void add_mamba(Parts& p, std::int64_t h, const Mamba2Shape& a) {
  const std::int64_t inner = a.heads * a.head_dim, bc = 2 * a.groups * a.state;
  p.column += h * (2 * inner + bc + a.heads) + inner * h;
  p.column_other += (inner + bc) * (a.conv + 1) + 3 * a.heads + inner;
}

/// Gated DeltaNet: q, k, v, gate, beta, decay, a convolution without bias, A, dt bias, a norm over one value head.
void add_delta(Parts& p, std::int64_t h, const DeltaNetShape& a) {
  const std::int64_t key = a.key_heads * a.key_dim, value = a.value_heads * a.value_dim;
  p.column += h * (2 * key + 2 * value) + 2 * h * a.value_heads + value * h;
  p.column_other += (2 * key + value) * a.conv + 2 * a.value_heads;
  p.whole_other += a.value_dim;
}

/// 3 h f gated, 2 h f plain; the first bias is split like its columns, the second is added after the reduction.
void add_dense(Parts& p, std::int64_t h, const DenseShape& d) {
  p.column += (d.gated ? 3 : 2) * h * d.width;
  if (!d.bias) return;
  p.column_other += (d.gated ? 2 : 1) * d.width;
  p.whole_other += h;
}

/// Router, routed experts (on a narrower width when latent) and shared experts.
void add_moe(Parts& p, std::int64_t h, const MoeShape& m) {
  const std::int64_t matrices = m.gated ? 3 : 2, width = m.latent > 0 ? m.latent : h;
  p.whole += h * m.experts;
  if (m.router_bias) p.whole_other += m.experts;
  if (m.latent > 0) p.whole += 2 * h * m.latent;
  p.expert += matrices * width * m.expert_width;
  if (m.expert_bias) {
    p.expert_split += (m.gated ? 2 : 1) * m.expert_width;
    p.expert_whole += width;
  }
  p.column += matrices * h * m.shared_width;
  if (m.shared_gate) p.whole += h;
}

Parts parts_of(const Model& model, const Layer& layer) {
  Parts p;
  switch (layer.mixer) {
    case Mixer::None: break;
    case Mixer::Attention: add_attention(p, model.hidden, layer.attention); break;
    case Mixer::Latent: add_latent(p, model.hidden, layer.latent); break;
    case Mixer::Mamba2: add_mamba(p, model.hidden, layer.mamba); break;
    case Mixer::DeltaNet: add_delta(p, model.hidden, layer.delta); break;
  }
  switch (layer.ffn) {
    case Ffn::None: break;
    case Ffn::Dense: add_dense(p, model.hidden, layer.dense); break;
    case Ffn::Moe: add_moe(p, model.hidden, layer.moe); break;
  }
  p.whole_other += layer.norms * norm_size(model, model.hidden);
  return p;
}

std::int64_t expert_size(const Parts& p) { return p.expert + p.expert_split + p.expert_whole; }
std::int64_t experts_of(const Layer& layer) { return layer.ffn == Ffn::Moe ? layer.moe.experts : 0; }
std::int64_t top_k_of(const Layer& layer) { return layer.ffn == Ffn::Moe ? layer.moe.top_k : 0; }

/// Weights of a layer that one token touches: only `top_k` of the routed experts.
std::int64_t active_size(const Model& model, const Layer& layer) {
  const LayerParameters p = layer_parameters(model, layer);
  return p.tensor + p.replicated + top_k_of(layer) * expert_size(parts_of(model, layer));
}

/// The same, GEMM weights alone: neither norms nor biases nor convolutions.
std::int64_t matmul_size(const Model& model, const Layer& layer) {
  const Parts p = parts_of(model, layer);
  const bool biased = layer.mixer == Mixer::Attention && layer.attention.qkv_bias;
  const std::int64_t kv_bias = biased ? 2 * layer.attention.kv() : 0;
  return p.column + p.kv - kv_bias + p.whole + top_k_of(layer) * p.expert;
}

/// Layers of one prediction module, its projection of hidden and embedding (2h to h) and three norms.
std::int64_t mtp_size(const Model& m) {
  std::int64_t one = 2 * m.hidden * m.hidden + 3 * norm_size(m, m.hidden);
  for (const int kind : m.mtp.kinds) one += layer_parameters(m, m.kinds[static_cast<std::size_t>(kind)]).total();
  return m.mtp.depth * one;
}

/// Adapter of a linear in -> out: r (in + out).
std::int64_t adapter(std::int64_t rank, std::int64_t in, std::int64_t out) { return rank * (in + out); }

std::int64_t mixer_adapters(std::int64_t h, const Layer& layer, std::int64_t r) {
  switch (layer.mixer) {
    case Mixer::None: return 0;
    case Mixer::Attention: {
      const AttentionShape& a = layer.attention;
      const std::int64_t q = a.output_gate ? 2 * a.q() : a.q();
      return adapter(r, h, q + 2 * a.kv()) + adapter(r, a.q(), h);
    }
    case Mixer::Latent: {
      const LatentShape& a = layer.latent;
      const std::int64_t q_out = a.heads * a.qk_dim();
      const std::int64_t query =
          a.q_rank > 0 ? adapter(r, h, a.q_rank) + adapter(r, a.q_rank, q_out) : adapter(r, h, q_out);
      return query + adapter(r, h, a.kv_rank + a.rope_dim) +
             adapter(r, a.kv_rank, a.heads * (a.nope_dim + a.value_dim)) + adapter(r, a.heads * a.value_dim, h);
    }
    case Mixer::Mamba2: {
      const Mamba2Shape& a = layer.mamba;
      const std::int64_t inner = a.heads * a.head_dim;
      return adapter(r, h, 2 * inner + 2 * a.groups * a.state + a.heads) + adapter(r, inner, h);
    }
    case Mixer::DeltaNet: {
      const DeltaNetShape& a = layer.delta;
      const std::int64_t key = a.key_heads * a.key_dim, value = a.value_heads * a.value_dim;
      return adapter(r, h, 2 * key + 2 * value) + adapter(r, h, 2 * a.value_heads) + adapter(r, value, h);
    }
  }
  return 0;
}

/// Both linears of an FFN: h -> f (twice that when gated) and f -> h. Nothing for a width of 0.
std::int64_t ffn_adapters(std::int64_t h, std::int64_t f, bool gated, std::int64_t r) {
  return f == 0 ? 0 : adapter(r, h, gated ? 2 * f : f) + adapter(r, f, h);
}

}  // namespace

LayerParameters layer_parameters(const Model& model, const Layer& layer) {
  const Parts p = parts_of(model, layer);
  return {p.column + p.kv + p.column_other, p.whole + p.whole_other, experts_of(layer) * expert_size(p)};
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

std::int64_t score_bias_elements(const Model& model) {
  const auto of_kind = [&](int kind) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
    return layer.ffn == Ffn::Moe && layer.moe.score_bias ? layer.moe.experts : 0;
  };
  std::int64_t sum = 0;
  for (const int kind : model.layers) sum += of_kind(kind);
  for (const int kind : model.mtp.kinds) sum += model.mtp.depth * of_kind(kind);
  return sum;
}

std::int64_t mtp_copies(const Model& model) {
  return model.mtp.own_embedding ? 2 * model.vocab * model.hidden * model.mtp.depth : 0;
}

RankParameters rank_parameters(const Model& model, const Layer& layer, int tp, int ep, int etp) {
  const Parts p = parts_of(model, layer);
  RankParameters rank;
  rank.dense = static_cast<double>(p.column + p.column_other) / tp + static_cast<double>(p.whole + p.whole_other);
  if (p.kv > 0) {
    const std::int64_t groups = layer.attention.kv_heads;
    const double copies = groups < tp ? static_cast<double>(tp) / static_cast<double>(groups) : 1.0;
    rank.dense += static_cast<double>(p.kv) * copies / tp;
  }
  const double local = static_cast<double>(experts_of(layer)) / ep;
  rank.expert = local * (static_cast<double>(p.expert + p.expert_split) / etp + static_cast<double>(p.expert_whole));
  return rank;
}

RankParameters adapter_parameters(const Model& model, const Layer& layer, const Lora& lora, int tp, int ep, int etp) {
  const std::int64_t h = model.hidden, r = lora.rank;
  std::int64_t dense = lora.attention ? mixer_adapters(h, layer, r) : 0, expert = 0;
  if (lora.ffn && layer.ffn == Ffn::Dense) dense += ffn_adapters(h, layer.dense.width, layer.dense.gated, r);
  if (lora.ffn && layer.ffn == Ffn::Moe) {
    const MoeShape& m = layer.moe;
    const std::int64_t width = m.latent > 0 ? m.latent : h;
    expert = m.experts * ffn_adapters(width, m.expert_width, m.gated, r);
    dense += ffn_adapters(h, m.shared_width, m.gated, r);
    if (m.latent > 0) dense += adapter(r, h, m.latent) + adapter(r, m.latent, h);
  }
  return {static_cast<double>(dense) / tp, static_cast<double>(expert) / ep / etp};
}

}  // namespace plan
