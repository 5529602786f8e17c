#include <doctest/doctest.h>

#include <cmath>

#include "formulas/flops.hpp"
#include "tests/formulas/models.hpp"

namespace plan {
namespace {

using doctest::Approx;

/// Equal to the digits printed: GFLOP per token with four decimals.
bool prints_as(double flops, double gflop) { return std::abs(flops / 1e9 - gflop) <= 0.5e-4 + 1e-9; }

TEST_CASE("DeepSeek counts neither router nor prediction modules") {
  for (const int mtp : {0, 1}) {
    const Model model = fixture::deepseek_v3(mtp);
    CHECK(prints_as(model_flops_per_token(model, 4096, FlopsConvention::DeepSeekCausal), 249.8113));
    CHECK(prints_as(model_flops_per_token(model, 4096, FlopsConvention::DeepSeekFull), 280.5136));
  }
}

TEST_CASE("Megatron counts the padded vocabulary and no router") {
  const Model model = fixture::llama3_405b();
  const double per_token = model_flops_per_token(model, 8192, FlopsConvention::Megatron, {.tp = 8});
  CHECK(prints_as(per_token, 2524.0315));
  CHECK(per_token * 2048 * 8192 == Approx(4.234622139625793e19).epsilon(1e-15));
  // The norms of MLA's latents and of the prediction module are counted as GEMMs there.
  const Model v3 = fixture::deepseek_v3(1);
  const ModelFlops flops = model_flops(v3, 4096);
  const double own = 3 * (flops.total() - flops.layers.router - flops.mtp_layers.router);
  const double norms = 6.0 * (62 * (1536 + 512) + 3 * 7168);
  CHECK(model_flops_per_token(v3, 4096, FlopsConvention::Megatron) == Approx(own + norms).epsilon(1e-14));
}

TEST_CASE("packed documents shorten attention") {
  const Model model = fixture::llama3_8b();
  const double packed = model_flops_per_token(model, 8192, FlopsConvention::ModelCausal, {.packed_length = 2048});
  CHECK(packed == model_flops_per_token(model, 2048, FlopsConvention::ModelCausal));
}

TEST_CASE("6N, PaLM and torchtitan count parameters") {
  // formulas.md B3
  struct Row {
    Model model;
    double seq, six_n, palm;
  };
  const Row rows[] = {{fixture::llama3_8b(), 8192, 48.1816, 61.0665},
                      {fixture::llama3_70b(), 8192, 423.3222, 487.7467},
                      {fixture::llama3_405b(), 8192, 2435.1203, 2638.0575},
                      {fixture::llama3_405b(), 131072, 2435.1203, 5682.1156}};
  for (const Row& row : rows) {
    CHECK(prints_as(model_flops_per_token(row.model, row.seq, FlopsConvention::SixN), row.six_n));
    CHECK(prints_as(model_flops_per_token(row.model, row.seq, FlopsConvention::Palm), row.palm));
    // torchtitan leaves the embedding out of PaLM's count, unless the head shares it.
    const double embedding = 6.0 * static_cast<double>(row.model.vocab * row.model.hidden);
    CHECK(model_flops_per_token(row.model, row.seq, FlopsConvention::Torchtitan) ==
          Approx(model_flops_per_token(row.model, row.seq, FlopsConvention::Palm) - embedding).epsilon(1e-14));
  }
  Model tied = fixture::llama3_8b();
  tied.tied = true;
  CHECK(model_flops_per_token(tied, 8192, FlopsConvention::Torchtitan) ==
        model_flops_per_token(tied, 8192, FlopsConvention::Palm));
}

}  // namespace
}  // namespace plan
