#pragma once

#include "formulas/real_bytes.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Bytes per parameter of every model state before sharding (plan-formulas(7) C1). Which of them a data
/// parallel group shares out is `state_shares`'s business.
struct StateBytes {
  RealBytes weights{2};         ///< what the GEMMs read
  RealBytes grads{4};           ///< the gradient buffer
  RealBytes master{4};          ///< fp32 copy of the weights, or the low 16 bits of it
  RealBytes moments{8};         ///< matrices of the hidden layers
  RealBytes ends{8};            ///< moments of embedding, head and norms (Muon runs Adam on them)
  RealBytes optimizer_grads{};  ///< fp32 gradients that the optimizer keeps from step to step (DeepSpeed)
  RealBytes step{};             ///< alive during the optimizer step only
  RealBytes reduction{};        ///< of a whole gradient, alive while it is reduced after the last micro-batch
  bool operator==(const StateBytes&) const = default;
};
/// Of a parameter that is trained so; `zero` 0-3 decides what DeepSpeed and FSDP2 keep beside it [DS, FSDP2].
[[nodiscard]] StateBytes state_bytes(const Training& training, int zero);

/// Share of each state that one rank holds of the parameters it works on: 1, or 1 / shard degree.
struct StateShares {
  double weights = 1;
  double grads = 1;
  double optimizer = 1;
};
/// `zero` 0-3; `shard` is the number of ranks that share one copy.
/// 0 nothing, 1 optimizer, 2 and gradients, 3 and weights. FSDP2 keeps fp32 weights sharded under 2 as well: what stays
/// whole from forward to backward is their 16-bit copy (fully_shard, reshard_after_forward=False).
[[nodiscard]] constexpr StateShares state_shares(int zero, double shard, StateLayout states = StateLayout::Megatron) {
  const double part = 1 / shard;
  const bool weights = zero >= 3 || (zero == 2 && states == StateLayout::Fsdp2);
  return {weights ? part : 1.0, zero >= 2 ? part : 1.0, zero >= 1 ? part : 1.0};
}

/// GPU generations that differ in workspaces, and in what an fp8 GEMM can read.
enum class GpuGeneration { Ampere, Hopper, Blackwell };

/// Bytes per frozen weight: as trained, or 4-bit NF4 blocks of 64 with doubly quantised scales (QLoRA).
[[nodiscard]] RealBytes frozen_weight_bytes(const Training& training);

/// Bytes per GEMM weight of the copies that fp8 and fp4 GEMMs read, with their scales: row-wise for the forward pass,
/// column-wise for the input's gradient [TE]. Blackwell's GEMMs read one copy of a weight with a scale for the whole
/// tensor either way (TE, is_non_tn_fp8_gemm_supported); scales of blocks need both.
[[nodiscard]] RealBytes quantised_weight_bytes(const Training& training, GpuGeneration generation);

/// Does the stack store GEMM weights as those copies, with no 16-bit weight beside them? `fp8_param_gather` of
/// Megatron [MCORE]; under FSDP2 the stored weight is fp32 and only what is gathered is fp8.
[[nodiscard]] bool primary_quantised(const Training& training);

// The bytes per parameter of the usual schemes are written, as text and code, in formulas/textbook/textbook_states.hpp.

}  // namespace plan
