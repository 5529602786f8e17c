// Bytes per parameter of every optimizer, layout and ZeRO stage against their sources' tables.
#include "formulas/states.hpp"

#include <doctest/doctest.h>

namespace {

using namespace plan;

Training with(StateLayout states, int grad_bytes = 4) {
  Training training;
  training.stack.states = states;
  training.grad_bytes = grad_bytes;
  return training;
}

/// Bytes of a parameter between steps.
RealBytes resident(const Training& training, int zero, double shard) {
  const StateBytes bytes = state_bytes(training, zero);
  const StateShares share = state_shares(zero, shard, training.stack.states);
  return bytes.weights * share.weights + bytes.grads * share.grads +
         (bytes.master + bytes.moments + bytes.optimizer_grads) * share.optimizer;
}

TEST_CASE("Megatron: 18, 6 + 12/d, and the bf16 buffer's fp32 copy at the step") {
  const Training training = with(StateLayout::Megatron);
  CHECK(resident(training, 0, 64).value == 18);
  CHECK(resident(training, 1, 64).value == 6.1875);
  CHECK(resident(training, 2, 64).value == 2 + 16.0 / 64);  // Meta's: bf16 weights whole
  CHECK(resident(training, 3, 64).value == 18.0 / 64);
  const Training narrow = with(StateLayout::Megatron, 2);
  CHECK(resident(narrow, 0, 1).value == 16);
  CHECK(resident(narrow, 1, 64).value == 4.1875);
  CHECK(state_bytes(narrow, 1).step.value == 4);
  CHECK(state_bytes(training, 1).step.value == 0);
}

TEST_CASE("fp32 training has no master copy") {
  Training training = with(StateLayout::Megatron);
  training.precision = Precision::Fp32;
  CHECK(resident(training, 0, 1).value == 16);
  CHECK(resident(training, 1, 64).value == 8.125);
}

TEST_CASE("precision-aware optimizer") {
  Training training = with(StateLayout::Megatron);
  training.precision_aware = true;
  training.moment1_bytes = training.moment2_bytes = 2;  // DeepSeek-V3's
  CHECK(resident(training, 1, 8).value == 6 + 8.0 / 8);
  training.master_bytes = 2;  // low 16 bits only
  CHECK(resident(training, 1, 8).value == 6 + 6.0 / 8);
  training.grad_bytes = 2;
  CHECK(state_bytes(training, 1).step.value == 0);
}

TEST_CASE("DeepSpeed's own estimator: 2 + 18/N, 18/N") {
  const Training training = with(StateLayout::DeepSpeed, 2);
  CHECK(resident(training, 1, 64).value == 4 + 16.0 / 64);
  CHECK(resident(training, 2, 64).value == 2 + 18.0 / 64);
  CHECK(resident(training, 3, 64).value == 18.0 / 64);
  CHECK(resident(training, 2, 64).value * 70e9 == doctest::Approx(160.95e9).epsilon(0.02));
  CHECK(resident(training, 0, 64).value == 16);  // fp32 gradients only while it steps
  CHECK(state_bytes(training, 0).step.value == 4);
  CHECK(state_bytes(training, 2).step.value == 0);  // its partition's gradients are fp32 already
  CHECK(state_bytes(training, 3).step.value == 4);
  // The bf16 optimizer accumulates whole fp32 gradients: BLOOM.
  CHECK(resident(with(StateLayout::DeepSpeed), 1, 8).value == 8 + 12.0 / 8);
}

TEST_CASE("fully_shard: 16/N") {
  CHECK(resident(with(StateLayout::Fsdp2), 3, 64).value == 16.0 / 64);
  CHECK(resident(with(StateLayout::MegatronFsdp), 3, 8).value == 18.0 / 8);
}

TEST_CASE("optimizers: what takes the place of Adam's eight bytes") {
  const auto moments = [](Optimizer optimizer) {
    Training training;
    training.optimizer = optimizer;
    return state_bytes(training, 1).moments.value;
  };
  CHECK(moments(Optimizer::Adam) == 8);
  CHECK(moments(Optimizer::Adam8bit) == 2.03125);
  CHECK(moments(Optimizer::Adafactor) == 0);
  CHECK(moments(Optimizer::Muon) == 4);
  CHECK(moments(Optimizer::SgdMomentum) == 4);
  CHECK(moments(Optimizer::Sgd) == 0);
  Training muon;
  muon.optimizer = Optimizer::Muon;
  CHECK(state_bytes(muon, 1).ends.value == 8);  // embedding and head stay with Adam
}

TEST_CASE("quantised weights") {
  const auto extra = [](Precision precision, GpuGeneration on = GpuGeneration::Hopper) {
    Training training;
    training.precision = precision;
    return quantised_weight_bytes(training, on).value;
  };
  CHECK(extra(Precision::Bf16) == 0);
  CHECK(extra(Precision::Fp8Tensorwise) == 2);
  CHECK(extra(Precision::Fp8Tensorwise, GpuGeneration::Blackwell) == 1);  // read either way: no transposed copy
  CHECK(extra(Precision::Mxfp8) == 2 + 2.0 / 32);
  CHECK(extra(Precision::Mxfp8, GpuGeneration::Blackwell) == 2 + 2.0 / 32);
  for (const GpuGeneration on : {GpuGeneration::Hopper, GpuGeneration::Blackwell})  // an fp32 scale for each 128 x 128
    CHECK(extra(Precision::Fp8Blockwise, on) == doctest::Approx(2.0 * (128 * 128 + 4) / (128 * 128)));
  CHECK(extra(Precision::Nvfp4) == 2 * (0.5 + 1.0 / 16));
  Training training;
  CHECK(frozen_weight_bytes(training).value == 2);
  training.task = Task::Qlora;
  CHECK(frozen_weight_bytes(training).value == doctest::Approx(0.516).epsilon(1e-3));
}

TEST_CASE("fp8 is the stored weight where a stack gathers it, and fp32 stays that under FSDP2") {
  Training training;
  training.precision = Precision::Fp8Tensorwise;
  CHECK_FALSE(primary_quantised(training));
  training.stack.fp8_param_gather = true;
  CHECK(primary_quantised(training));
  training.stack.states = StateLayout::Fsdp2;
  CHECK_FALSE(primary_quantised(training));
  training.stack.states = StateLayout::Megatron, training.precision = Precision::Bf16;
  CHECK_FALSE(primary_quantised(training));
}

TEST_CASE("reshard_after_forward=False keeps the fp32 shard: 4P/d beside 2P") {
  CHECK(state_shares(2, 8, StateLayout::Fsdp2).weights == 1.0 / 8);
  CHECK(state_shares(2, 8, StateLayout::Megatron).weights == 1);
  CHECK(state_shares(1, 8, StateLayout::Fsdp2).weights == 1);
}

}  // namespace
