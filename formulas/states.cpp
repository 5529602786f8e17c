// Bytes of weights, gradients and optimizer states, parameter by parameter (plan-formulas(7) C1). Assumes that a stack
// keeps what its own sources allocate: Megatron's distributed optimizer, DeepSpeed's stages, FSDP2 [TE, MCORE, DS,
// FSDP2]. Tested by tests/formulas/states_test.cpp and textbook_memory_test.cpp.
#include "formulas/states.hpp"

namespace plan {
namespace {

/// Blockwise 8-bit states keep one fp32 scale for 256 values.
constexpr double kEightBitState = 1 + 4.0 / 256;

struct Moments {
  RealBytes hidden;
  RealBytes ends;
};

Moments moments(const Training& training) {
  const RealBytes first(training.moment1_bytes), adam(training.moment1_bytes + training.moment2_bytes);
  constexpr RealBytes kTwo(2 * kEightBitState);
  switch (training.optimizer) {
    case Optimizer::Adam: return {adam, adam};
    case Optimizer::Adam8bit: return {kTwo, kTwo};
    case Optimizer::Adafactor: return {};  // a row and a column in place of a matrix
    case Optimizer::Muon: return {first, adam};
    case Optimizer::SgdMomentum: return {first, first};
    case Optimizer::Sgd: return {};
  }
  return {adam, adam};
}

/// Megatron: a gradient buffer of the whole rank. A bf16 buffer is copied to fp32 for the step unless
/// the optimizer reads it in place.
StateBytes megatron(const Training& training, Moments m) {
  const bool wide = training.weight_bytes() == 4;
  StateBytes bytes{.weights = RealBytes(training.weight_bytes()),
                   .grads = RealBytes(training.grad_bytes),
                   .master = RealBytes(wide ? 0 : training.master_bytes),
                   .moments = m.hidden,
                   .ends = m.ends};
  if (training.grad_bytes < 4 && !training.precision_aware) bytes.step = RealBytes(4);
  return bytes;
}

/// fully_shard: fp32 parameters are the master; gradients arrive in the parameters' type.
StateBytes fsdp2(Moments m) {
  return {.weights = RealBytes(4), .grads = RealBytes(4), .master = {}, .moments = m.hidden, .ends = m.ends};
}

/// DeepSpeed: 16-bit gradients, and fp32 ones in the optimizer's partition. Its bf16 optimizer at stage 0
/// and 1 accumulates whole fp32 gradients beside the 16-bit ones, in one flat buffer that is cast to 16 bits to be
/// reduced (runtime/engine.py, allreduce_bucket); stage 3 keeps the fp32 partition only, and flattens it into a copy
/// for the step, or 16-bit gradients into one and that into an fp32 one (runtime/zero/stage3.py,
/// _prepare_fp32_grad_for_sub_group). Without stages its fp16 optimizer makes fp32 gradients for the step alone
/// (runtime/fp16/fused_optimizer.py).
StateBytes deepspeed(const Training& training, int zero, Moments m) {
  const bool whole_fp32 = zero < 2 && training.grad_bytes == 4;
  const double grads = whole_fp32 ? 6 : zero == 3 ? 4 : 2;
  return {.weights = RealBytes(training.weight_bytes()),
          .grads = RealBytes(grads),
          .master = RealBytes(training.master_bytes),
          .moments = m.hidden,
          .ends = m.ends,
          .optimizer_grads = RealBytes(grads > 2 || zero == 0 ? 0 : 4),
          .step = RealBytes(zero == 3 || (zero == 0 && !whole_fp32) ? 4 : 0),
          .reduction = RealBytes(whole_fp32 ? 2 : 0)};
}

}  // namespace

StateBytes state_bytes(const Training& training, int zero) {
  Moments m = moments(training);
  // The outer optimizer's momentum, and the parameters as the copies last had them together: fp32, shared out like the
  // inner optimizer's states.
  constexpr RealBytes kOuter(4 + 4);
  if (training.local.any()) m.hidden += kOuter, m.ends += kOuter;
  switch (training.stack.states) {
    case StateLayout::Megatron:
    case StateLayout::MegatronFsdp: return megatron(training, m);
    case StateLayout::Fsdp2: return fsdp2(m);
    case StateLayout::DeepSpeed: return deepspeed(training, zero, m);
  }
  return megatron(training, m);
}

RealBytes frozen_weight_bytes(const Training& training) {
  // 4 bits, an 8-bit scale for 64 weights, an fp32 scale for 256 of those
  if (training.task == Task::Qlora) return RealBytes(0.5 + 1.0 / 64 + 4.0 / (64 * 256));
  return RealBytes(training.weight_bytes());
}

RealBytes quantised_weight_bytes(const Training& training, GpuGeneration generation) {
  switch (training.precision) {
    case Precision::Fp32:
    case Precision::Fp16:
    case Precision::Bf16: return {};
    case Precision::Fp8Delayed:
    case Precision::Fp8Tensorwise: return RealBytes(generation == GpuGeneration::Blackwell ? 1 : 2);
    case Precision::Fp8Blockwise: return RealBytes(2 * (1 + 4.0 / (128 * 128)));
    case Precision::Mxfp8: return RealBytes(2 * (1 + 1.0 / 32));
    case Precision::Nvfp4: return RealBytes(2 * (0.5 + 1.0 / 16));
  }
  return {};
}

bool primary_quantised(const Training& training) {
  const Stack& stack = training.stack;
  return stack.fp8_param_gather && is_narrow(training.precision) &&
         (stack.states == StateLayout::Megatron || stack.states == StateLayout::MegatronFsdp);
}

}  // namespace plan
