#pragma once

// Elements that the files of a checkpoint hold beside its parameters.

#include <cstdint>

#include "formulas/model.hpp"

namespace plan {

/// Load-balancing biases of the routers, prediction modules included.
inline std::int64_t score_bias_elements(const Model& model) {
  const auto of_kind = [&](int kind) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
    return layer.ffn == Ffn::Moe && layer.moe.score_bias ? layer.moe.experts : 0;
  };
  std::int64_t sum = 0;
  for (const int kind : model.layers) sum += of_kind(kind);
  for (const int kind : model.mtp.kinds) sum += model.mtp.depth * of_kind(kind);
  return sum;
}

/// Copies of embedding and head that some checkpoints store with the prediction modules (Mtp::own_embedding).
inline std::int64_t mtp_copies(const Model& model) {
  return model.mtp.own_embedding ? 2 * model.vocab * model.hidden * model.mtp.depth : 0;
}

/// fp32 scales of a checkpoint in 128 x 128 blocks: sum of ceil(out/128) ceil(in/128) over the linears that are
/// stored in FP8. Embedding, head, router, norms and the projection of a prediction module are not.
inline std::int64_t fp8_scales(const Model& m) {
  const auto blocks = [](std::int64_t out, std::int64_t in) { return ((out + 127) / 128) * ((in + 127) / 128); };
  const auto layer_scales = [&](const Layer& layer) {
    const std::int64_t h = m.hidden;
    std::int64_t n = 0;
    if (layer.mixer == Mixer::Attention) n += 2 * blocks(layer.attention.q(), h) + 2 * blocks(layer.attention.kv(), h);
    if (layer.mixer == Mixer::Latent) {
      const LatentShape& a = layer.latent;
      n += blocks(a.q_rank, h) + blocks(a.heads * a.qk_dim(), a.q_rank) + blocks(a.kv_rank + a.rope_dim, h) +
           blocks(a.heads * (a.nope_dim + a.value_dim), a.kv_rank) + blocks(h, a.heads * a.value_dim);
    }
    if (layer.ffn == Ffn::Dense) n += 3 * blocks(layer.dense.width, h);
    if (layer.ffn == Ffn::Moe)
      n += 3 * layer.moe.experts * blocks(layer.moe.expert_width, h) +
           (layer.moe.shared_width > 0 ? 3 * blocks(layer.moe.shared_width, h) : 0);
    return n;
  };
  std::int64_t total = 0;
  for (const int kind : m.layers) total += layer_scales(m.kinds[static_cast<std::size_t>(kind)]);
  for (const int kind : m.mtp.kinds) total += m.mtp.depth * layer_scales(m.kinds[static_cast<std::size_t>(kind)]);
  return total;
}

}  // namespace plan
