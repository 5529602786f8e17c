#include <doctest/doctest.h>

#include <cmath>

#include "formulas/flops.hpp"
#include "formulas/textbook/textbook_size.hpp"
#include "tests/formulas/models.hpp"

namespace plan {
namespace {

using doctest::Approx;

/// Equal to the digits printed: GFLOP per token with four decimals.
bool prints_as(Flops flops, double gflop) { return std::abs(flops.value / 1e9 - gflop) <= 0.5e-4 + 1e-9; }

TEST_CASE("DeepSeek counts neither router nor prediction modules") {
  for (const int mtp : {0, 1}) {
    const Model model = fixture::deepseek_v3(mtp);
    CHECK(prints_as(model_flops_per_token(model, 4096, FlopsConvention::DeepSeekCausal), 249.8113));
    CHECK(prints_as(model_flops_per_token(model, 4096, FlopsConvention::DeepSeekFull), 280.5136));
  }
}

TEST_CASE("packed documents cost what sequences of their length cost, in every convention, from one token on") {
  for (const FlopsConvention convention :
       {FlopsConvention::ModelCausal, FlopsConvention::ModelFull, FlopsConvention::SixN, FlopsConvention::Palm,
        FlopsConvention::Megatron, FlopsConvention::Torchtitan, FlopsConvention::DeepSeekCausal,
        FlopsConvention::DeepSeekFull})
    for (const double length : {1.0, 2.0, 17.0, 2048.0})
      for (const Model& model : {fixture::llama3_8b(), fixture::deepseek_v3(1)})
        CHECK(model_flops_per_token(model, 4096, convention, {.packed_length = length}) ==
              model_flops_per_token(model, length, convention));
}

TEST_CASE("Megatron counts the padded vocabulary and no router") {
  const Model model = fixture::llama3_405b();
  const Flops per_token = model_flops_per_token(model, 8192, FlopsConvention::Megatron, {.tp = 8});
  CHECK(prints_as(per_token, 2524.0315));
  CHECK(per_token.value * 2048 * 8192 == Approx(4.234622139625793e19).epsilon(1e-15));
  // The norms of MLA's latents and of the prediction module are counted as GEMMs there.
  const Model v3 = fixture::deepseek_v3(1);
  const ModelFlops flops = model_flops(v3, 4096);
  const double own = 3 * (flops.total() - flops.layers.router - flops.mtp_layers.router).value;
  const double norms = 6.0 * (62 * (1536 + 512) + 3 * 7168);
  CHECK(model_flops_per_token(v3, 4096, FlopsConvention::Megatron).value == Approx(own + norms).epsilon(1e-14));
}

TEST_CASE("published runs follow from the formulas") {
  // plan-formulas(7) B3, end-to-end checks; peaks in FLOP/s
  using textbook::flops_gpt, textbook::flops_gpt_full, textbook::mfu, textbook::mfu_throughput;
  constexpr double kA100 = 312e12, kH100 = 989.5e12;

  // DeepSeek-V3 on 2,048 H800: 15,360 sequences in 19.926 s
  const double tokens = 15360 * 4096.0, step = 19.926;
  CHECK(tokens / step * 86400 / 1e9 == Approx(272.8003).epsilon(1e-6));
  const Model v3 = fixture::deepseek_v3(1);
  const double causal = model_flops_per_token(v3, 4096, FlopsConvention::DeepSeekCausal).value;
  const double full = model_flops_per_token(v3, 4096, FlopsConvention::DeepSeekFull).value;
  CHECK(mfu({causal * tokens, 2048, kH100, step}) == Approx(0.3894).epsilon(1e-3));
  CHECK(mfu({full * tokens, 2048, kH100, step}) == Approx(0.4373).epsilon(1e-3));
  CHECK(causal == Approx(385e12 * 2048 * step / tokens).epsilon(0.5 / 385));  // printed in whole TFLOP/s
  CHECK(full == Approx(432e12 * 2048 * step / tokens).epsilon(0.5 / 432));
  // 180 thousand GPU-hours for 10^12 tokens
  CHECK(1e12 / (180e3 * 3600) == Approx(tokens / step / 2048).epsilon(2e-3));

  // MT-NLG 530B: TFLOP/s per GPU with full recomputation, printed 126, 121, 113
  const struct {
    double gpus, seconds, tflops, printed;
  } nlg[] = {{2240, 60.1, 125.73, 126}, {2800, 50.2, 120.42, 121}, {3360, 44.4, 113.46, 113}};
  for (const auto& row : nlg) {
    const double hardware = flops_gpt_full({1920, 2048, 105, 20480, 51200}).value;
    CHECK(hardware / row.seconds / row.gpus / 1e12 == Approx(row.tflops).epsilon(1e-4));
    CHECK(row.tflops == Approx(row.printed).epsilon(0.006));
  }
  const double nlg_parameters = textbook::megatron_parameters({105, 20480, 51200, 2048});
  CHECK(mfu({6 * nlg_parameters * 1920 * 2048, 2240, kA100, 60.1}) == Approx(0.2975).epsilon(1e-3));
  CHECK(mfu({flops_gpt({1920, 2048, 105, 20480, 51200}).value, 2240, kA100, 60.1}) == Approx(0.3024).epsilon(1e-3));

  // Runs that state GPU-hours or tokens per second, under 6N
  CHECK(mfu_throughput({380, model_flops_per_token(fixture::llama1_65b(), 2048, FlopsConvention::SixN).value, kA100}) ==
        Approx(0.477).epsilon(1e-3));
  const struct {
    double parameters, tokens, gpu_hours, peak, mfu;
  } runs[] = {{68976648192, 2e12, 1720320, kA100, 0.428},
              {176247271424, 366e9, 1082990, kA100, 0.318},
              {405853388800, 15.6e12, 30.84e6, kH100, 0.346}};
  for (const auto& run : runs)
    CHECK(mfu({6 * run.parameters * run.tokens, 1, run.peak, run.gpu_hours * 3600}) == Approx(run.mfu).epsilon(2e-3));
}

TEST_CASE("closed forms are the counts of their models") {
  const Model model = fixture::llama3_405b();
  CHECK(textbook::flops_megatron({126, 16384, 16384, 1024, 53248, 129024, 8192}).value ==
        Approx(model_flops_per_token(model, 8192, FlopsConvention::Megatron, {.tp = 8}).value).epsilon(1e-14));
  const LayerFlops layer = layer_flops(model, model.kinds[0], 8192);
  CHECK(textbook::flops_layer_forward({16384, 16384, 1024, 53248, 8192}).value == layer.total().value);
  const Model gpt = fixture::gpt(96, 12288, 96, 51200);
  CHECK(textbook::flops_gpt({1, 2048, 96, 12288, 51200}).value / 2048 ==
        Approx(3 * model_flops(gpt, 2048, Mask::Full).total().value).epsilon(1e-14));
  // One more forward of attention, as the recompute option of the planner counts it.
  const ModelFlops flops = model_flops(gpt, 2048, Mask::Full);
  const Flops again = recompute_flops(flops.layers, RecomputeKind::Selective, kRecomputeCoreAttention);
  CHECK(textbook::flops_gpt_selective({1, 2048, 96, 12288, 51200}).value / 2048 ==
        Approx((3 * flops.total() + again).value).epsilon(1e-14));
}

TEST_CASE("packed documents shorten attention") {
  const Model model = fixture::llama3_8b();
  const Flops packed = model_flops_per_token(model, 8192, FlopsConvention::ModelCausal, {.packed_length = 2048});
  CHECK(packed == model_flops_per_token(model, 2048, FlopsConvention::ModelCausal));
}

TEST_CASE("a step of adapters computes no gradients of frozen weights") {
  const Model model = fixture::llama2_70b();
  const double weights = 80.0 * (8192 * (8192 + 2048) + 8192 * 8192 + 3 * 8192 * 28672) + 32000.0 * 8192;
  const double core = model_flops_per_token(model, 4096, FlopsConvention::ModelCausal).value / 3 - 2 * weights;
  // On the fused projections: h -> qkv, heads -> h, h -> gate and up, f -> h.
  const double adapters = 80.0 * 16 * (8192 + 10240 + 8192 + 8192 + 8192 + 57344 + 28672 + 8192);
  const Training lora{.task = Task::Lora, .lora = {.rank = 16}};
  CHECK(model_flops_per_token(model, 4096, FlopsConvention::ModelCausal, {.adapters = &lora}).value ==
        Approx(2 * 2 * weights + 3 * core + 3 * 2 * adapters).epsilon(1e-12));
}

TEST_CASE("6N, PaLM and torchtitan count parameters") {
  // plan-formulas(7) B3
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
    CHECK(model_flops_per_token(row.model, row.seq, FlopsConvention::Torchtitan).value ==
          Approx(model_flops_per_token(row.model, row.seq, FlopsConvention::Palm).value - embedding).epsilon(1e-14));
  }
  Model tied = fixture::llama3_8b();
  tied.tied = true;
  CHECK(model_flops_per_token(tied, 8192, FlopsConvention::Torchtitan) ==
        model_flops_per_token(tied, 8192, FlopsConvention::Palm));
}

}  // namespace
}  // namespace plan
