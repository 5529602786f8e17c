#include <algorithm>

#include "formulas/transient.hpp"

namespace plan {
namespace {

void add_attention(LinearShapes& out, double hidden, const AttentionShape& shape, int tp) {
  const double t = tp;
  const double q = static_cast<double>(shape.q()) / t;
  const double kv = static_cast<double>(std::max<std::int64_t>(shape.kv_heads, tp) * shape.head_dim) / t;
  out.add((shape.output_gate ? 2 : 1) * q + 2 * kv, hidden);
  out.add(hidden, q);
}

void add_latent(LinearShapes& out, double hidden, const LatentShape& shape, int tp) {
  const double heads = static_cast<double>(shape.heads) / tp;
  const double queries = heads * static_cast<double>(shape.qk_dim());
  const double q_rank = static_cast<double>(shape.q_rank), kv_rank = static_cast<double>(shape.kv_rank);
  if (shape.q_rank > 0) {
    out.add(q_rank, hidden);
    out.add(queries, q_rank);
  } else {
    out.add(queries, hidden);
  }
  out.add(kv_rank + static_cast<double>(shape.rope_dim), hidden);
  out.add(heads * static_cast<double>(shape.nope_dim + shape.value_dim), kv_rank);
  out.add(hidden, heads * static_cast<double>(shape.value_dim));
}

void add_mamba(LinearShapes& out, double hidden, const Mamba2Shape& shape, int tp) {
  const double inner = static_cast<double>(shape.heads * shape.head_dim);
  const double projected = 2 * inner + static_cast<double>(2 * shape.groups * shape.state + shape.heads);
  out.add(projected / tp, hidden);
  out.add(hidden, inner / tp);
}

void add_delta(LinearShapes& out, double hidden, const DeltaNetShape& shape, int tp) {
  const double keys = static_cast<double>(shape.key_heads * shape.key_dim);
  const double values = static_cast<double>(shape.value_heads * shape.value_dim);
  out.add((2 * keys + 2 * values + 2 * static_cast<double>(shape.value_heads)) / tp, hidden);
  out.add(hidden, values / tp);
}

void add_moe(LinearShapes& out, double hidden, const MoeShape& shape, const Layout& layout) {
  const double latent = static_cast<double>(shape.latent);
  const double local = static_cast<double>(shape.experts) / layout.ep;
  const double expert_hidden = shape.latent > 0 ? latent : hidden;
  const double width = static_cast<double>(shape.expert_width) / layout.etp;
  const double shared = static_cast<double>(shape.shared_width) / layout.tp;
  const double gates = shape.gated ? 2 : 1;
  out.add(gates * width, expert_hidden, local);
  out.add(expert_hidden, width, local);
  out.add(gates * shared, hidden);
  out.add(hidden, shared);
  out.add(latent, hidden);
  out.add(hidden, latent);
}

}  // namespace

LinearShapes linear_shapes(const Model& model, const Layer& layer, const Layout& layout) {
  const double hidden = static_cast<double>(model.hidden);
  LinearShapes out;
  switch (layer.mixer) {
    case Mixer::None: break;
    case Mixer::Attention: add_attention(out, hidden, layer.attention, layout.tp); break;
    case Mixer::Latent: add_latent(out, hidden, layer.latent, layout.tp); break;
    case Mixer::Mamba2: add_mamba(out, hidden, layer.mamba, layout.tp); break;
    case Mixer::DeltaNet: add_delta(out, hidden, layer.delta, layout.tp); break;
  }
  if (layer.ffn == Ffn::Dense) {
    const double width = static_cast<double>(layer.dense.width) / layout.tp;
    out.add((layer.dense.gated ? 2 : 1) * width, hidden);
    out.add(hidden, width);
  }
  if (layer.ffn == Ffn::Moe) add_moe(out, hidden, layer.moe, layout);
  return out;
}

}  // namespace plan
