// What experts and norms of queries keep for the backward pass, counted by hand, and sizes that no model has.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "formulas/absurdity.hpp"
#include "formulas/activation.hpp"
#include "formulas/parameters.hpp"
#include "tests/formulas/models.hpp"

namespace {

using namespace plan;
using doctest::Approx;

/// Bytes a token.
LayerLedger a_token(const Model& model, const Training& training, const Layout& layout) {
  LayerLedger ledger = layer_ledger(model, model.kinds[0], training, layout);
  ledger.scale(1 / rank_tokens(training, layout));
  return ledger;
}

}  // namespace

TEST_CASE("experts keep their input, what their activation takes and gives, and what weighs them, under every stack") {
  std::mt19937 random(6);
  for (int trial = 0; trial < 400; ++trial) {
    const auto coin = [&] { return random() % 2 == 0; };
    CAPTURE(trial);
    Model model = fixture::llama3_8b();
    Training training;
    Layout layout;
    MoeShape& moe = model.kinds[0].moe;
    model.kinds[0].ffn = Ffn::Moe;
    moe = {.experts = 64, .top_k = 6, .expert_width = 1408, .shared_width = coin() ? 2816 : 0, .gated = coin()};
    moe.latent = coin() ? 512 : 0;
    Stack& stack = training.stack;
    stack.fused_activation = coin(), stack.weighs_outputs = coin(), stack.legacy_moe_probs = coin();
    layout.tp = coin() ? 4 : 1;
    layout.sequence_parallel = layout.tp > 1 && coin();
    layout.etp = layout.tp > 1 && coin() ? 2 : 1;
    const double r = layout.sequence_parallel ? 4 : 1, f = 1408, fs = static_cast<double>(moe.shared_width) / layout.tp;
    const double seen = moe.latent > 0 ? 512 : 4096, in = moe.gated ? 2 : 1, copies = 6 / r;
    const bool factor = moe.gated && !stack.fused_activation;  // SiLU's output waits for the gate
    const LayerLedger kept = a_token(model, training, layout);
    CHECK(kept[Fate::Router].value == Approx((4 + 4) * 64 / r + 2 * 2 * static_cast<double>(moe.latent) / r));
    CHECK(kept[Fate::Routed].value ==
          Approx(copies * (2 * seen * layout.etp + 2 * in * f + 4 + (moe.gated ? 0 : 2 * f))));
    CHECK(kept[Fate::RoutedActivation].value == Approx(copies * (factor ? 4 : 2) * f));
    CHECK(kept[Fate::RoutedOutput].value == Approx(copies * seen *
                                                   (stack.weighs_outputs     ? 4
                                                    : stack.legacy_moe_probs ? 2
                                                                             : 0)));
    CHECK(kept[Fate::Shared].value == Approx(fs * (2 * in + 2 + (factor ? 2 : 0))));
  }
}

TEST_CASE(
    "latent attention keeps its latents twice, what comes behind their up-projections, and what its indexer needs") {
  for (const int tp : {1, 4})
    for (const bool split : {false, true})
      for (const std::int64_t index_heads : {0, 32}) {
        if (split && tp == 1) continue;
        Model model = fixture::deepseek_v3();
        LatentShape& shape = model.kinds[0].latent;
        shape.index_heads = index_heads, shape.index_dim = 128, shape.index_top_k = 2048;
        Layout layout;
        layout.tp = tp, layout.sequence_parallel = split;
        const double r = split ? tp : 1, heads = 128.0 / tp;
        // Queries of all heads, one key and what its norm reads, in 16 bits; weights in fp32; positions of 8 bytes.
        const double indexer = 2.0 * (32 + 2) * 128 + 4 * 32 + 8 * 2048;
        const LayerLedger kept = a_token(model, Training{}, layout);
        CHECK(kept[Fate::Mixer].value ==
              Approx((2 + 2) * (1536 + 512) / r + 2 * heads * 128 + (index_heads > 0 ? indexer / r : 0)));
        CHECK(kept[Fate::LatentUp].value == Approx(2 * heads * (192 + 192 + 128)));
        CHECK(kept[Fate::Statistics].value == Approx(4 * (2 + 2) / r));  // norms of the layer and of both latents
        shape.q_rank = 0;                                                // queries straight from the input
        CHECK(a_token(model, Training{}, layout)[Fate::Statistics].value == Approx(4 * (2 + 1) / r));
      }
}

TEST_CASE("norms of queries and keys keep their inputs, and two numbers a token or one a head") {
  Model model = fixture::llama3_8b();
  for (const int t : {1, 2, 8}) {
    Layout layout;
    layout.tp = t;
    const auto mixer = [&](QkNorm norm) {
      model.kinds[0].attention.qk_norm = norm;
      return a_token(model, Training{}, layout)[Fate::Mixer].value;
    };
    const double none = mixer(QkNorm::None), inputs = 2.0 * (4096 + 1024) / t;
    CHECK(mixer(QkNorm::PerHead) - none == Approx(inputs + 4.0 * (32 + 8) / t));
    CHECK(mixer(QkNorm::Full) - none == Approx(inputs + 4.0 * 2));
  }
}

TEST_CASE("a norm keeps a number a token for its scale, and LayerNorm another for its mean") {
  for (const int norms : {1, 2, 4})
    for (const int tp : {1, 4}) {
      Model model = fixture::llama3_8b();
      model.kinds[0].norms = norms;
      Layout layout;
      layout.tp = tp, layout.sequence_parallel = tp > 1;
      CHECK(a_token(model, Training{}, layout)[Fate::Statistics].value == Approx(4.0 * norms / tp));
      model.norm = Norm::Layer;
      CHECK(a_token(model, Training{}, layout)[Fate::Statistics].value == Approx(8.0 * norms / tp));
    }
}

TEST_CASE("sizes that no model has are named: heads, experts, depth and parameters") {
  const Model sound = fixture::llama3_8b();
  CHECK(absurdity(sound).empty());
  CHECK(absurdity(fixture::deepseek_v3()).empty());
  Model m = sound;
  for (const std::int64_t dim : {1, 0}) {
    m.kinds[0].attention.head_dim = dim;
    CHECK(absurdity(m).empty() == (dim > 0));
  }
  m = sound;
  for (const std::int64_t groups : {1, 2, 3, 5, 32}) {
    m.kinds[0].attention.kv_heads = groups;
    CHECK(absurdity(m).empty() == (32 % groups == 0));
  }
  m = fixture::deepseek_v3();
  for (const std::int64_t chosen : {255, 256, 257}) {
    m.kinds[1].moe.top_k = chosen;
    CHECK(absurdity(m).empty() == (chosen <= 256));
  }
  m = sound;
  for (const std::size_t depth : {kMostDepth, kMostDepth + 1}) {
    m.layers.assign(depth, 0);
    CHECK(absurdity(m).empty() == (depth <= kMostDepth));
  }
}

TEST_CASE("a model of more parameters than any has is refused, whatever part of it they are in") {
  std::mt19937 random(8);
  int refused = 0, taken = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const auto grown = [&](std::int64_t& size) {
      size = static_cast<std::int64_t>(static_cast<double>(size) *
                                       std::pow(10, 8e-3 * static_cast<double>(random() % 1000)));
    };
    Model m = random() % 2 == 0 ? fixture::llama3_8b() : fixture::deepseek_v3(1);
    switch (random() % 5) {
      case 0: grown(m.vocab); break;
      case 1: m.positions = 4096, grown(m.positions); break;
      case 2: grown(m.kinds.back().dense.width), grown(m.kinds.back().moe.shared_width); break;
      case 3: grown(m.kinds.back().moe.expert_width), grown(m.kinds.back().dense.width); break;
      default: m.layers.assign(1 + random() % kMostDepth, 0), grown(m.kinds[0].dense.width); break;
    }
    double widest = static_cast<double>(std::max(m.vocab, m.positions)) / 100;
    for (const Layer& kind : m.kinds)
      widest = std::max({widest, static_cast<double>(kind.dense.width), static_cast<double>(kind.moe.expert_width)});
    if (widest > 1e10) continue;  // the count below is of whole numbers of 64 bits
    const double all = static_cast<double>(model_parameters(m).with_mtp);
    if (all > kMostParameters / 1.2 && all < kMostParameters * 1.2) continue;  // tied embeddings count twice there
    CAPTURE(all);
    CHECK(absurdity(m).empty() == (all < kMostParameters));
    ++(all < kMostParameters ? taken : refused);
  }
  CHECK(refused > 20);
  CHECK(taken > 100);
}
