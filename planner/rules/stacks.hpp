#pragma once

#include <string_view>

#include "formulas/training.hpp"

/// Defaults of software that more than one framework or published run is built on.
namespace plan {

/// Megatron-LM with Transformer Engine, as its own recipes run it; the environment that plans are made
/// for sets PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
[[nodiscard]] Stack megatron_stack();

/// PyTorch with fully sharded data parallelism; `compiled` fuses the pointwise kernels, the loss among them, and what
/// is eager keeps what autograd saves of every operation. DTensor keeps the gathered input of a linear, and
/// redistributes its gradient when that linear's backward, weight gradient included, has run. Scores weigh the experts'
/// outputs in fp32 (torchtitan, moe.py).
[[nodiscard]] Stack fsdp_stack(std::string_view name, bool compiled);

/// A Hugging Face model: PyTorch's eager kernels, logits whole on each rank (transformers' ForCausalLMLoss in fp32).
[[nodiscard]] Stack hugging_face_stack(std::string_view name, StateLayout states);

/// DeepSpeed around a Hugging Face model: its own states and buckets (DeepSpeed 0.19.8's defaults: overlap_comm at
/// stage 3).
[[nodiscard]] Stack deepspeed_stack();

/// JAX: XLA schedules collectives beside whatever does not need them, and lays out all memory of a step beforehand.
[[nodiscard]] Stack maxtext_stack();

}  // namespace plan
