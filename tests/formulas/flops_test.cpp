#include "formulas/flops.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/formulas/models.hpp"

namespace plan {
namespace {

using doctest::Approx;

/// Equal to the digits printed: GFLOP per token with four decimals.
bool prints_as(double flops, double gflop) { return std::abs(flops / 1e9 - gflop) <= 0.5e-4 + 1e-9; }

struct Golden {
  const char* name;
  Model model;
  double seq;
  double linear, causal, full, total_causal, total_full;
};

TEST_CASE("published FLOPs per token, to the printed digit") {
  // plan-formulas(7) B3
  const Golden rows[] = {
      {"llama3-8b", fixture::llama3_8b(), 8192, 45.0280, 6.4425, 12.8849, 51.4704, 57.9129},
      {"llama3-70b", fixture::llama3_70b(), 8192, 417.0103, 32.2123, 64.4245, 449.2225, 481.4348},
      {"llama3.1-405b", fixture::llama3_405b(), 8192, 2422.4874, 101.4686, 202.9372, 2523.9560, 2625.4246},
      {"llama3.1-405b long", fixture::llama3_405b(), 131072, 2422.4874, 1623.4976, 3246.9953, 4045.9850, 5669.4827},
      {"deepseek-v3", fixture::deepseek_v3(), 4096, 219.7476, 30.7023, 61.4046, 250.4499, 281.1522},
      {"deepseek-v3 mtp", fixture::deepseek_v3(1), 4096, 229.4360, 31.2056, 62.4112, 260.6417, 291.8473},
  };
  for (const Golden& row : rows) {
    CAPTURE(std::string(row.name));
    const ModelFlops causal = model_flops(row.model, row.seq, Mask::Causal);
    const ModelFlops full = model_flops(row.model, row.seq, Mask::Full);
    CHECK(prints_as((3 * causal.linear()).value, row.linear));
    CHECK(prints_as((3 * causal.core()).value, row.causal));
    CHECK(prints_as((3 * full.core()).value, row.full));
    CHECK(prints_as((3 * causal.total()).value, row.total_causal));
    CHECK(prints_as((3 * full.total()).value, row.total_full));
  }
}

TEST_CASE("a window and the mask shorten what a query sees") {
  CHECK(attended_tokens(8192, 0, Mask::Causal) == 4096);
  CHECK(attended_tokens(8192, 0, Mask::Full) == 8192);
  CHECK(attended_tokens(8192, 16384, Mask::Causal) == 4096);
  CHECK(attended_tokens(8192, 128, Mask::Full) == 128);
  // Against the sum over queries: query i sees min(i, w) keys.
  for (const int window : {1, 128, 1000, 4095}) {
    double sum = 0;
    for (int i = 1; i <= 4096; ++i) sum += std::min(i, window);
    CHECK(attended_tokens(4096, window, Mask::Causal) == Approx(sum / 4096).epsilon(0.5 / window + 1e-3));
  }
}

TEST_CASE("state-space and latent layers follow their shapes") {
  Model model;
  model.hidden = 100;
  Layer mamba;
  mamba.mixer = Mixer::Mamba2;
  mamba.ffn = Ffn::None;
  mamba.mamba = {.heads = 4, .head_dim = 50, .groups = 2, .state = 16, .conv = 4};
  CHECK(layer_flops(model, mamba, 1e6).linear().value == 2 * 100 * (2 * 200 + 2 * 32 + 4) + 2 * 200 * 100);
  CHECK(layer_flops(model, mamba, 1e6).core.value == 7 * 200 * 16);
  Layer delta;
  delta.mixer = Mixer::DeltaNet;
  delta.ffn = Ffn::None;
  delta.delta = {.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 16, .conv = 4};
  CHECK(layer_flops(model, delta, 1e6).total().value ==
        2 * (100 * (32 + 128 + 8) + 4 * (32 + 64) + 4 * 4 * 256 + 100 * 64));
  Layer latent_moe;
  latent_moe.mixer = Mixer::None;
  latent_moe.ffn = Ffn::Moe;
  latent_moe.moe = {.experts = 8, .top_k = 2, .expert_width = 64, .shared_width = 32, .gated = false, .latent = 40};
  CHECK(layer_flops(model, latent_moe, 1).total().value == 4 * 40 * 64 * 2 + 4 * 100 * 40 + 4 * 100 * 32 + 2 * 100 * 8);
}

TEST_CASE("a sparse indexer scores every key, attention reads the chosen ones") {
  Model model = fixture::deepseek_v3();
  const LayerFlops dense = layer_flops(model, model.kinds[1], 65536);
  Layer sparse = model.kinds[1];
  sparse.latent.index_heads = 64, sparse.latent.index_dim = 128, sparse.latent.index_top_k = 2048;
  const LayerFlops chosen = layer_flops(model, sparse, 65536);
  CHECK((chosen.mixer - dense.mixer).value == 2.0 * (1536 * 64 * 128 + 7168 * 128 + 7168 * 64));
  CHECK(chosen.core.value == Approx(2.0 * 128 * 320 * (2048 - 2048.0 * 2048 / (2 * 65536)) + 2.0 * 64 * 128 * 32768));
  CHECK(chosen.core < dense.core);
}

TEST_CASE("recomputation repeats exactly the named modules") {
  const Model model = fixture::deepseek_v3();
  const LayerFlops moe = layer_flops(model, model.kinds[1], 4096);
  CHECK(recompute_flops(moe, RecomputeKind::None, 255) == Flops());
  CHECK(recompute_flops(moe, RecomputeKind::Full, 0) == moe.total());
  CHECK(recompute_flops(moe, RecomputeKind::Selective, kRecomputeCoreAttention) == moe.core);
  CHECK(recompute_flops(moe, RecomputeKind::Selective, kRecomputeNorm | kRecomputeMoeActivation) == Flops());
  CHECK(recompute_flops(moe, RecomputeKind::Selective, kRecomputeLatentUp).value ==
        2.0 * (1536 * 128 * 192 + 512 * 128 * 256));
  const Flops both = recompute_flops(moe, RecomputeKind::Selective, kRecomputeMoe | kRecomputeSharedExperts);
  CHECK(both == recompute_flops(moe, RecomputeKind::Selective, kRecomputeMoe));
  CHECK(both == moe.router + moe.experts + moe.shared);
  const LayerFlops dense = layer_flops(model, model.kinds[0], 4096);
  CHECK(recompute_flops(dense, RecomputeKind::Selective, kRecomputeMlp).value == 6.0 * 7168 * 18432);
}

}  // namespace
}  // namespace plan
