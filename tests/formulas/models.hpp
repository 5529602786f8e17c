#pragma once

#include <cstdint>

#include "formulas/model.hpp"

/// Models written out by hand, so that the formulas' tests lean on no preset.
namespace plan::fixture {

struct LlamaShape {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0;
};

inline Model llama(const LlamaShape& shape) {
  Layer layer;
  layer.attention = {.heads = shape.heads, .kv_heads = shape.kv_heads, .head_dim = shape.hidden / shape.heads};
  layer.dense = {.width = shape.ffn};
  Model model;
  model.hidden = shape.hidden;
  model.vocab = shape.vocab;
  model.kinds = {layer};
  model.layers.assign(static_cast<std::size_t>(shape.layers), 0);
  return model;
}

inline Model llama3_8b() {
  return llama({.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 128256});
}
inline Model llama3_70b() {
  return llama({.layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 8, .ffn = 28672, .vocab = 128256});
}
inline Model llama3_405b() {
  return llama({.layers = 126, .hidden = 16384, .heads = 128, .kv_heads = 8, .ffn = 53248, .vocab = 128256});
}
inline Model llama1_65b() {
  return llama({.layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 64, .ffn = 22016, .vocab = 32000});
}
inline Model llama2_70b() {
  return llama({.layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 8, .ffn = 28672, .vocab = 32000});
}

/// GPT with a plain MLP of four times the hidden width.
inline Model gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab) {
  Model model =
      llama({.layers = layers, .hidden = hidden, .heads = heads, .kv_heads = heads, .ffn = 4 * hidden, .vocab = vocab});
  model.kinds[0].dense.gated = false;
  return model;
}

inline Model deepseek_v3(int mtp_depth = 0) {
  Layer dense;
  dense.mixer = Mixer::Latent;
  dense.latent = {.heads = 128, .q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128};
  dense.dense = {.width = 18432};
  Layer moe = dense;
  moe.ffn = Ffn::Moe;
  moe.moe = {.experts = 256, .top_k = 8, .expert_width = 2048, .shared_width = 2048, .score_bias = true};
  Model model;
  model.hidden = 7168;
  model.vocab = 129280;
  model.kinds = {dense, moe};
  model.layers.assign(61, 1);
  model.layers[0] = model.layers[1] = model.layers[2] = 0;
  if (mtp_depth > 0) model.mtp = {.depth = mtp_depth, .kinds = {1}};
  return model;
}

}  // namespace plan::fixture
