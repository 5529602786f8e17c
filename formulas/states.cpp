#include "formulas/states.hpp"

namespace plan {
namespace {

/// Blockwise 8-bit states keep one fp32 scale for 256 values.
constexpr double kEightBitState = 1 + 4.0 / 256;

struct Moments {
  double hidden;
  double ends;
};

Moments moments(const Training& training) {
  const double adam = training.moment1_bytes + training.moment2_bytes;
  switch (training.optimizer) {
    case Optimizer::Adam: return {adam, adam};
    case Optimizer::Adam8bit: return {2 * kEightBitState, 2 * kEightBitState};
    case Optimizer::Adafactor: return {0, 0};  // a row and a column in place of a matrix
    case Optimizer::Muon: return {training.moment1_bytes, adam};
    case Optimizer::SgdMomentum: return {training.moment1_bytes, training.moment1_bytes};
    case Optimizer::Sgd: return {0, 0};
  }
  return {adam, adam};
}

/// Megatron: a gradient buffer of the whole rank. A bf16 buffer is copied to fp32 for the step unless
/// the optimizer reads it in place.
StateBytes megatron(const Training& training, Moments m) {
  const bool wide = training.weight_bytes() == 4;
  StateBytes bytes{training.weight_bytes(),
                   static_cast<double>(training.grad_bytes),
                   wide ? 0 : training.master_bytes,
                   m.hidden,
                   m.ends,
                   0,
                   0};
  if (training.grad_bytes < 4 && !training.precision_aware) bytes.step = 4;
  return bytes;
}

/// fully_shard: fp32 parameters are the master; gradients arrive in the parameters' type.
StateBytes fsdp2(Moments m) { return {4, 4, 0, m.hidden, m.ends, 0, 0}; }

/// DeepSpeed: 16-bit gradients, and fp32 ones in the optimizer's partition. Its bf16 optimizer at stage 0
/// and 1 accumulates whole fp32 gradients beside the 16-bit ones, in one flat buffer that is cast to 16 bits to be
/// reduced (runtime/engine.py, allreduce_bucket); stage 3 keeps the fp32 partition only, and flattens it into a copy
/// for the step, or 16-bit gradients into one and that into an fp32 one (runtime/zero/stage3.py,
/// _prepare_fp32_grad_for_sub_group). Without stages its fp16 optimizer makes fp32 gradients for the step alone
/// (runtime/fp16/fused_optimizer.py).
StateBytes deepspeed(const Training& training, int zero, Moments m) {
  const bool whole_fp32 = zero < 2 && training.grad_bytes == 4;
  const double grads = whole_fp32 ? 6 : zero == 3 ? 4 : 2;
  return {.weights = training.weight_bytes(),
          .grads = grads,
          .master = training.master_bytes,
          .moments = m.hidden,
          .ends = m.ends,
          .optimizer_grads = grads > 2 || zero == 0 ? 0.0 : 4.0,
          .step = zero == 3 || (zero == 0 && !whole_fp32) ? 4.0 : 0.0,
          .reduction = whole_fp32 ? 2.0 : 0.0};
}

}  // namespace

StateBytes state_bytes(const Training& training, int zero) {
  Moments m = moments(training);
  // The outer optimizer's momentum, and the parameters as the copies last had them together: fp32, shared out like the
  // inner optimizer's states.
  constexpr double kOuter = 4 + 4;
  if (training.local.any()) m.hidden += kOuter, m.ends += kOuter;
  switch (training.stack.states) {
    case StateLayout::Megatron:
    case StateLayout::MegatronFsdp: return megatron(training, m);
    case StateLayout::Fsdp2: return fsdp2(m);
    case StateLayout::DeepSpeed: return deepspeed(training, zero, m);
  }
  return megatron(training, m);
}

double resident_bytes(const Training& training, int zero, double shard) {
  const StateBytes bytes = state_bytes(training, zero);
  const StateShares share = state_shares(zero, shard, training.stack.states);
  return bytes.weights * share.weights + bytes.grads * share.grads +
         (bytes.master + bytes.moments + bytes.optimizer_grads) * share.optimizer;
}

double frozen_weight_bytes(const Training& training) {
  // 4 bits, an 8-bit scale for 64 weights, an fp32 scale for 256 of those
  if (training.task == Task::Qlora) return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
  return training.weight_bytes();
}

double quantised_weight_bytes(const Training& training, GpuGeneration generation) {
  switch (training.precision) {
    case Precision::Fp32:
    case Precision::Fp16:
    case Precision::Bf16: return 0;
    case Precision::Fp8Delayed:
    case Precision::Fp8Tensorwise: return generation == GpuGeneration::Blackwell ? 1 : 2;
    case Precision::Fp8Blockwise: return 2 * (1 + 4.0 / (128 * 128));
    case Precision::Mxfp8: return 2 * (1 + 1.0 / 32);
    case Precision::Nvfp4: return 2 * (0.5 + 1.0 / 16);
  }
  return 0;
}

bool primary_quantised(const Training& training) {
  const Stack& stack = training.stack;
  const bool quantises = is_fp8(training.precision) || training.precision == Precision::Nvfp4;
  return stack.fp8_param_gather && quantises &&
         (stack.states == StateLayout::Megatron || stack.states == StateLayout::MegatronFsdp);
}

}  // namespace plan
