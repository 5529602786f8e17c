#include "planner/rules/stacks.hpp"

namespace plan {

Stack megatron_stack() {
  Stack stack;
  stack.expandable_segments = true;
  return stack;
}

Stack fsdp_stack(std::string_view name, bool compiled) {
  Stack stack;
  stack.framework = name;
  stack.fused_pointwise = stack.fused_softmax = compiled;
  stack.attention_kernel = AttentionKernel::Flash2;
  stack.states = StateLayout::Fsdp2;
  stack.cross_entropy = compiled ? CrossEntropy::Compiled : CrossEntropy::Eager;
  stack.fused_norms = stack.fused_activation = compiled;
  stack.transformer_engine = stack.gradient_fusion = stack.tp_async_reduce = false;
  stack.keeps_gathered = stack.weighs_outputs = true;
  stack.fused_qkv = stack.fused_gate = false;  // wq, wk, wv and w1, w3, or transformers' names for them
  stack.prunes_recompute = true;  // torch.utils.checkpoint without reentry stops early; XLA drops dead code
  return stack;
}

Stack hugging_face_stack(std::string_view name, StateLayout states) {
  Stack stack = fsdp_stack(name, false);
  stack.states = states;
  stack.vocab_parallel_loss = false;
  stack.eager_launches = true;
  return stack;
}

Stack deepspeed_stack() {
  Stack stack = hugging_face_stack("deepspeed", StateLayout::DeepSpeed);
  stack.gathers_per_layer = 9;  // seven linears and two norms, each fetched by its module's hook
  return stack;
}

Stack maxtext_stack() {
  Stack stack = fsdp_stack("maxtext", true);
  stack.gathers_tensors = stack.expandable_segments = true;
  stack.cross_entropy = CrossEntropy::Unfused;
  stack.tp_async_reduce = true;
  stack.keeps_gathered = stack.weighs_outputs = false;
  return stack;
}

}  // namespace plan
