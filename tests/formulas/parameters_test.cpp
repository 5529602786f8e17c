#include "formulas/parameters.hpp"

#include <doctest/doctest.h>

#include <cstdint>

#include "formulas/flops.hpp"

using plan::Ffn;
using plan::Layer;
using plan::LayerParameters;
using plan::Mixer;
using plan::Model;
using plan::RankParameters;

namespace {

Model gpt(std::int64_t layers, std::int64_t h, std::int64_t heads, std::int64_t vocab, std::int64_t positions) {
  Model m;
  m.hidden = h;
  m.vocab = vocab;
  m.positions = positions;
  m.tied = true;
  m.norm = plan::Norm::Layer;
  Layer layer;
  layer.attention = {.heads = heads, .kv_heads = heads, .head_dim = h / heads, .qkv_bias = true, .out_bias = true};
  layer.dense = {.width = 4 * h, .gated = false, .bias = true};
  m.kinds = {layer};
  m.layers.assign(static_cast<std::size_t>(layers), 0);
  return m;
}

Model llama(std::int64_t kv_heads) {
  Model m;
  m.hidden = 1024;
  m.vocab = 32000;
  Layer layer;
  layer.attention = {.heads = 16, .kv_heads = kv_heads, .head_dim = 64};
  layer.dense = {.width = 2816};
  m.kinds = {layer};
  m.layers.assign(4, 0);
  return m;
}

Layer mixture() {
  Layer layer;
  layer.ffn = Ffn::Moe;
  layer.attention = {.heads = 16, .kv_heads = 4, .head_dim = 64};
  layer.moe = {.experts = 8, .top_k = 2, .expert_width = 512, .shared_width = 256};
  return layer;
}

/// A job that trains adapters, with fused linears as Megatron's or without.
plan::Training adapted(plan::Lora lora, bool fused = true) {
  plan::Training training{.task = plan::Task::Lora, .lora = lora};
  training.stack.fused_qkv = training.stack.fused_gate = fused;
  return training;
}

}  // namespace

TEST_CASE("GPT: L (12 h^2 + 13 h) + V h + n_ctx h + 2 h") {
  for (const std::int64_t h : {768, 1600, 4096, 12288})
    for (const std::int64_t layers : {1, 12, 96}) {
      const Model m = gpt(layers, h, 16, 50257, 2048);
      CHECK(plan::model_parameters(m).total == layers * (12 * h * h + 13 * h) + 50257 * h + 2048 * h + 2 * h);
    }
}

TEST_CASE("a layer's parts add up, whatever the block") {
  Layer latent = mixture();
  latent.mixer = Mixer::Latent;
  latent.latent = {.heads = 8, .q_rank = 96, .kv_rank = 64, .nope_dim = 32, .rope_dim = 16, .value_dim = 32};
  Layer mamba;
  mamba.mixer = Mixer::Mamba2;
  mamba.ffn = Ffn::None;
  mamba.norms = 1;
  mamba.mamba = {.heads = 16, .head_dim = 64, .groups = 4, .state = 32, .conv = 4};
  Layer delta = mixture();
  delta.mixer = Mixer::DeltaNet;
  delta.delta = {.key_heads = 4, .value_heads = 8, .key_dim = 32, .value_dim = 64, .conv = 4};
  const Model m = llama(4);
  const std::int64_t h = m.hidden;
  CHECK(plan::layer_parameters(m, mixture()).expert == 8LL * 3 * h * 512);
  CHECK(plan::layer_parameters(m, mixture()).replicated == h * 8 + 2 * h);
  CHECK(plan::layer_parameters(m, latent).replicated == h * 96 + 96 + h * (64 + 16) + 64 + h * 8 + 2 * h);
  CHECK(plan::layer_parameters(m, latent).tensor == 96LL * 8 * 48 + 64LL * 8 * (32 + 32) + 8LL * 32 * h + 3 * h * 256);
  CHECK(plan::layer_parameters(m, mamba).total() ==
        h * (2LL * 1024 + 2LL * 4 * 32 + 16) + (1024 + 2LL * 4 * 32) * 5 + 3LL * 16 + 1024 + 1024 * h + h);
  CHECK(plan::layer_parameters(m, delta).total() - plan::layer_parameters(m, mixture()).total() ==
        h * (2LL * 128 + 2LL * 512) + 2 * h * 8 + (2LL * 128 + 512) * 4 + 2LL * 8 + 64 + 512 * h -
            (2 * h * 1024 + 2 * h * 4 * 64));
}

TEST_CASE("ranks of a layer hold all of it once, and what is replicated once each") {
  const Model m = llama(8);
  const Layer layers[] = {m.kinds[0], mixture()};
  for (const Layer& layer : layers)
    for (const int tp : {1, 2, 4})
      for (const int ep : {1, 2, 8})
        for (const int etp : {1, 2}) {
          const LayerParameters whole = plan::layer_parameters(m, layer);
          const RankParameters rank = plan::rank_parameters(m, layer, tp, ep, etp);
          CHECK(rank.dense * tp == doctest::Approx(static_cast<double>(whole.tensor + tp * whole.replicated)));
          CHECK(rank.expert * ep * etp == doctest::Approx(static_cast<double>(whole.expert)));
        }
}

TEST_CASE("KV heads fewer than tp are replicated: max(g, t) / t of them on each rank") {
  const Model two = llama(2), sixteen = llama(16);
  const double h = 1024, head = 64;
  for (const int tp : {1, 2, 4, 8, 16}) {
    const double rest = (2 * h * h + 3 * h * 2816) / tp + 2 * h;
    const double kv_heads = tp > 2 ? 1.0 : 2.0 / tp;
    CHECK(plan::rank_parameters(two, two.kinds[0], tp, 1, 1).dense == doctest::Approx(rest + 2 * h * head * kv_heads));
    CHECK(plan::rank_parameters(sixteen, sixteen.kinds[0], tp, 1, 1).dense ==
          doctest::Approx(rest + 2 * h * head * 16 / tp));
  }
}

TEST_CASE("biases of experts are split by etp on the way in and whole on the way out") {
  const Model m = llama(4);
  Layer layer = mixture();
  layer.moe.expert_bias = true;
  const double each = 3.0 * 1024 * 512;
  CHECK(plan::rank_parameters(m, layer, 1, 4, 2).expert == doctest::Approx(2 * (each / 2 + 2 * 512 / 2.0 + 1024)));
}

TEST_CASE("adapters: r (in + out) for each linear") {
  const Model m = llama(4);
  const plan::Training all = adapted({.rank = 16});
  const double h = 1024, kv = 256, f = 2816;
  const double attention = 16 * (h + h + 2 * kv) + 16 * (h + h), ffn = 16 * (h + 2 * f) + 16 * (f + h);
  CHECK(plan::adapter_parameters(m, m.kinds[0], all, 1, 1, 1).dense == attention + ffn);
  CHECK(plan::adapter_parameters(m, m.kinds[0], adapted({.rank = 16, .ffn = false}), 1, 1, 1).dense == attention);
  CHECK(plan::adapter_parameters(m, m.kinds[0], adapted({.rank = 32, .attention = false}), 4, 1, 1).dense ==
        2 * ffn / 4);
  const RankParameters rank = plan::adapter_parameters(m, mixture(), all, 1, 4, 1);
  CHECK(rank.expert == 2 * 16 * ((h + 2 * 512) + (512 + h)));
  // Apart, queries, keys and values read the input three times, gate and up twice.
  const plan::Training apart = adapted({.rank = 16}, false);
  CHECK(plan::adapter_parameters(m, m.kinds[0], apart, 1, 1, 1).dense == attention + ffn + 16 * 3 * h);
  CHECK(plan::adapter_parameters(m, mixture(), apart, 1, 4, 1).expert == 2 * 16 * ((2 * h + 2 * 512) + (512 + h)));
  // Adapters are few.
  CHECK(plan::adapter_parameters(m, m.kinds[0], all, 1, 1, 1).total() <
        0.1 * static_cast<double>(plan::layer_parameters(m, m.kinds[0]).total()));
}

TEST_CASE("a token meets every adapter of a dense layer once, and of experts those of its own") {
  constexpr double h = 1024, kv = 256, f = 512;
  Model m = llama(4);
  m.kinds[0] = mixture();
  const double experts = static_cast<double>(m.kinds[0].moe.experts), chosen = 2;
  m.kinds[0].moe.top_k = 2, m.kinds[0].moe.shared_width = 0;
  const plan::Training experts_only = adapted({.rank = 16, .attention = false});
  CHECK(experts >= 4);
  CHECK(plan::adapter_flops(m, experts_only).value == doctest::Approx(4 * 2 * 16 * chosen * ((h + 2 * f) + (f + h))));
  const plan::Training attention_only = adapted({.rank = 16, .ffn = false});
  CHECK(plan::adapter_flops(m, attention_only).value == doctest::Approx(4 * 2 * 16 * ((h + h + 2 * kv) + (h + h))));
}

TEST_CASE("active and GEMM weights") {
  const Model dense = llama(4);
  const plan::ModelParameters n = plan::model_parameters(dense);
  CHECK(n.active == n.total);
  CHECK(n.matmul == n.total - n.embedding - 9LL * 1024);  // neither the table of the input nor the norms
  Model tied = dense;
  tied.tied = true;
  CHECK(plan::model_parameters(tied).total == n.total - n.embedding);
  CHECK(plan::model_parameters(tied).matmul == n.matmul);  // the head is multiplied all the same
  Model sparse = dense;
  sparse.kinds = {mixture()};
  const plan::ModelParameters s = plan::model_parameters(sparse);
  CHECK(s.total - s.active == 4 * 6 * 3 * 1024 * 512);
  sparse.kinds[0].moe.top_k = 8;
  CHECK(plan::model_parameters(sparse).active == s.total);
}

TEST_CASE("prediction modules: layers, 2 h^2 and three norms, apart from the total") {
  Model m = llama(4);
  const plan::ModelParameters before = plan::model_parameters(m);
  m.mtp = {2, 1, {0}, true};
  const plan::ModelParameters after = plan::model_parameters(m);
  CHECK(after.total == before.total);
  CHECK(after.with_mtp - after.total ==
        2LL * (plan::layer_parameters(m, m.kinds[0]).total() + 2LL * 1024 * 1024 + 3LL * 1024));
}

TEST_CASE("the padded vocabulary is the least multiple of 128 tp") {
  static_assert(plan::padded_vocab(50257, 1) == 50304);
  static_assert(plan::padded_vocab(50257, 8) == 51200);
  static_assert(plan::padded_vocab(51200, 8) == 51200);
  static_assert(plan::padded_vocab(128256, 8) == 129024);
  for (const std::int64_t vocab : {1, 127, 128, 129, 32000, 250880})
    for (const int tp : {1, 2, 3, 8, 64}) {
      const std::int64_t padded = plan::padded_vocab(vocab, tp);
      CHECK(padded >= vocab);
      CHECK(padded - vocab < 128LL * tp);
      CHECK(padded % (128LL * tp) == 0);
    }
}

TEST_CASE("every unit of width of a feed-forward is as many parameters as the last, from the first on") {
  constexpr std::int64_t h = 64, experts = 5;
  for (const bool gated : {false, true})
    for (std::int64_t f = 0; f < 4; ++f) {
      CAPTURE(gated);
      CAPTURE(f);
      const std::int64_t unit = h * (gated ? 3 : 2);
      Model m;
      m.hidden = h;
      const auto total = [&](const Layer& layer) { return layer_parameters(m, layer).total(); };
      Layer layer;
      layer.attention = {.heads = 1, .kv_heads = 1, .head_dim = h};
      layer.dense.gated = gated;
      Layer wider = layer;
      layer.dense.width = f, wider.dense.width = f + 1;
      CHECK(total(wider) - total(layer) == unit);
      layer.ffn = wider.ffn = Ffn::Moe;
      layer.moe = {.experts = experts, .top_k = 1, .expert_width = f, .shared_width = 2, .gated = gated};
      wider.moe = layer.moe;
      wider.moe.expert_width = f + 1;
      CHECK(total(wider) - total(layer) == experts * unit);
      layer.moe.expert_width = wider.moe.expert_width = 2;
      layer.moe.shared_width = f, wider.moe.shared_width = f + 1;
      CHECK(total(wider) - total(layer) == unit);
    }
}
