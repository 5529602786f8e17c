#include <doctest/doctest.h>

#include <cmath>

#include "formulas/textbook/textbook_activations.hpp"
#include "formulas/textbook/textbook_states.hpp"
#include "formulas/units.hpp"

namespace plan::textbook {
namespace {

using doctest::Approx;

constexpr RealBytes kGB{1e9};

static_assert(states_16({175e9}) == RealBytes(2.8e12));
static_assert(zero1_states({7.5e9, 64}) == RealBytes(31.40625e9));
static_assert(activation_tp({.seq = 2048, .hidden = 12288, .heads = 96}) == RealBytes(2868903936.0));

TEST_CASE("model states, worked numbers") {
  // plan-formulas(7) C4
  CHECK(states_16({7.5e9}) / kGB == 120);
  CHECK(zero2_states({7.5e9, 64}) / kGB == 16.640625);
  CHECK(zero3_states({7.5e9, 64}) / kGB == 1.875);
  CHECK(zero1_states({1, 64}) == RealBytes(4.1875));
  CHECK(zero2_states({1, 64}) == RealBytes(2.21875));
  CHECK(zero3_states({1, 64}) == RealBytes(0.25));
  CHECK(megatron_distributed({1, 64}) == RealBytes(6.1875));
  CHECK(megatron_bf16_grads({1, 64}) == RealBytes(4.1875));
  CHECK(megatron_bf16_grads_step({1, 64}) == RealBytes(4.25));
  CHECK(megatron_fp32_distributed({1, 64}) == RealBytes(8.125));
  CHECK(megatron_fp16_distributed({1, 64}) == RealBytes(4.25));
  // First of 16 stages of Llama-3.1-405B at tp 8: 7 layers and the embedding.
  CHECK(megatron_distributed({3083042816, 128}) / kGB == Approx(18.787).epsilon(3e-5));
  CHECK(zero2_states({3083042816, 128}) / kGB == Approx(6.551 - 3083042816 * 2.0 / 128 / 1e9).epsilon(1e-4));
  CHECK(deepspeed_zero2({70553706496, 64}) / kGB == Approx(160.95).epsilon(1e-4));
  // The largest layer of the 70B is its embedding.
  CHECK(deepspeed_zero3({70553706496, 64, 128256.0 * 8192}) / kGB == Approx(24.05).epsilon(2e-4));
  CHECK(fsdp2_forward({855654400}) / RealBytes(kGiB) == Approx(4.781).epsilon(1e-4));
  CHECK(fsdp2_backward({855654400}) / RealBytes(kGiB) == Approx(7.969).epsilon(1e-4));
  CHECK(cluster_memory({24576, 80}).value == Approx(1.966).epsilon(1e-4));
  CHECK(cluster_memory_course({24576, 80}) == Petabytes(1.875));
}

TEST_CASE("sharding schemes agree where they must") {
  for (const double p : {1.0, 7e9}) {
    // One rank: every scheme is the unsharded one.
    CHECK(zero1_states({p, 1}) == states_16({p}));
    CHECK(zero2_states({p, 1}) == states_16({p}));
    CHECK(zero3_states({p, 1}) == states_16({p}));
    CHECK(megatron_distributed({p, 1}) == megatron_states({p}));
    CHECK(megatron_fp16_distributed({p, 1}) == megatron_fp16({p}));
    CHECK(megatron_fp32_distributed({p, 1}) == megatron_fp32({p}));
    CHECK(megatron_instances({p, 64, 64}) == megatron_states({p}));
    CHECK(megatron_instances({p, 64, 1}) == megatron_distributed({p, 64}));
    CHECK(hsdp_states({p, 8}) == fsdp2_states({p, 8}));
    CHECK(zero1_elements({p, 1}) == ddp_elements({p}));
    // plan-formulas(7) C1: DeepSeek-V3's precisions, and master weights stored as remainders
    CHECK(precision_aware_states({p, 16, 4, 4, 2, 2}).value == Approx((6 + 8.0 / 16) * p));
    CHECK(precision_aware_states({p, 16, 4, 2, 2, 2}).value == Approx((6 + 6.0 / 16) * p));
    CHECK(precision_aware_states({p, 16}) / megatron_distributed({p, 16}) == Approx(1));
  }
  for (double d = 2; d <= 4096; d *= 2) {
    CHECK(zero3_states({1, d}) < zero2_states({1, d}));
    CHECK(zero2_states({1, d}) < zero1_states({1, d}));
    // What the notes promise is the limit, never reached.
    CHECK(zero1_saving({d}) < 0.75);
    CHECK(zero1_factor({d}) < 4);
    CHECK(zero2_factor({d}) < 8);
    CHECK(megatron_saving({d}) < 2.0 / 3);
  }
  CHECK(zero1_saving({1e9}) == Approx(0.75));
  CHECK(1 - zero1_elements({1, 1e9}) / ddp_elements({1}) == Approx(0.5));
}

TEST_CASE("activations of a GPT layer, worked numbers") {
  // plan-formulas(7) D1
  const ActivationInput gpt3{.seq = 2048, .hidden = 12288, .heads = 96};
  ActivationInput tp8 = gpt3;
  tp8.tp = 8;
  const LinearActivationInput linear{.seq = 2048, .hidden = 12288, .tp = 8};
  CHECK(gpt3.scores() == 80);
  CHECK(activation_tp(gpt3) == RealBytes(2868903936));
  CHECK(activation_sp(gpt3) == RealBytes(2868903936));
  CHECK(activation_tp(tp8) == RealBytes(578813952));
  CHECK(activation_sp(tp8) == RealBytes(358612992));
  CHECK(activation_selective(linear) == RealBytes(327155712));
  CHECK(activation_sp_selective(linear) == RealBytes(106954752));
  CHECK(activation_full({.seq = 2048, .hidden = 12288}) == RealBytes(50331648));
  CHECK(activation_full_sp(linear) == RealBytes(50331648 / 8));
  CHECK(activation_scores({.seq = 32768, .heads = 32}) == RealBytes(171798691840.0));
  CHECK(activation_scores({.seq = 32768, .heads = 32}) / RealBytes(kGiB) == 160);
  // What sequence parallelism saves is what it takes away.
  CHECK((activation_tp(tp8) - activation_sp(tp8)).value == Approx(10 * tp8.sbh() * 7 / 8));
  CHECK((activation_tp(gpt3) - activation_scores({2048, 1, 96})).value == Approx(34 * gpt3.sbh()));
}

TEST_CASE("activations of a Llama layer, worked numbers") {
  // plan-formulas(7) D2: bytes per token, tp 1
  CHECK(activation_llama({1, 4096, 4096, 1024, 14336, 32, 1}) == RealBytes(139400));
  CHECK(activation_llama({1, 8192, 8192, 1024, 28672, 64, 1}) == RealBytes(274696));
  CHECK(activation_llama({1, 16384, 16384, 2048, 53248, 128, 1}) == RealBytes(524808));  // 16 key-value heads
  CHECK(activation_llama({1, 16384, 16384, 1024, 53248, 128, 1}) == RealBytes(520712));  // Llama-3.1-405B has 8
  // 128 sequence-parallel tokens fewer on each of 8 ranks; without it norms are whole on every rank.
  CHECK(activation_llama({1, 8192, 8192, 1024, 28672, 64, 8}) == RealBytes(274696.0 / 8));
  CHECK(activation_llama_tp({1, 8192, 8192, 1024, 28672, 64, 8}) ==
        RealBytes(8 * 8192 + 8 + (4 * 8192 + 4 * 1024 + 6 * 28672 + 4 * 64) / 8.0));
  CHECK(activation_llama_fp8({1, 8192, 8192, 1024, 28672, 64, 1}) <
        activation_llama_mxfp8({1, 8192, 8192, 1024, 28672, 64, 1}));
  CHECK(activation_llama_mxfp8({1, 8192, 8192, 1024, 28672, 64, 1}) <
        activation_llama({1, 8192, 8192, 1024, 28672, 64, 1}));
}

TEST_CASE("uniform recomputation, worked numbers") {
  // plan-formulas(7) D4
  CHECK(recompute_best({8192, 80, 274696}) == Approx(2.18).epsilon(2e-3));
  CHECK(recompute_best({16384, 126, 524808}) == Approx(2.80).epsilon(3e-3));
  CHECK(recompute_uniform({8192, 80, 274696, recompute_best({8192, 80, 274696})}).value ==
        Approx(1200083).epsilon(1e-6));
  CHECK(recompute_uniform({8192, 80, 274696, 1}).value == Approx(1585416).epsilon(1e-9));
  CHECK(80 * 274696 == 21975680);
  // It is the least: neighbours need more.
  const double best = recompute_best({8192, 80, 274696});
  for (const double every : {0.9 * best, 1.1 * best})
    CHECK(recompute_uniform({8192, 80, 274696, every}) > recompute_uniform({8192, 80, 274696, best}));
  CHECK(recompute_work({64}) == 64);
  CHECK(recompute_work_course({64}) == 512);
}

}  // namespace
}  // namespace plan::textbook
