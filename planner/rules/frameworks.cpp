// The frameworks that plans are made for, joined, and what published runs ran. Tested by
// tests/planner/framework_rules_test.cpp.
#include "planner/rules/frameworks.hpp"

#include <algorithm>
#include <vector>

#include "planner/rules/stacks.hpp"

namespace plan {
namespace {

/// Megatron-DeepSpeed: eager kernels, nothing overlapped. Both forks (microsoft's until May 2023,
/// bigscience-workshop's) lack the asynchronous all-reduce that Megatron-LM's column-parallel linears have had since
/// September 2021.
Stack deepspeed_era() {
  Stack stack;
  stack.framework = "megatron-deepspeed";
  stack.states = StateLayout::DeepSpeed;
  stack.transformer_engine = stack.frees_stage_outputs = false;
  stack.scatters_hand_overs = true;
  stack.cross_entropy = CrossEntropy::Unfused;
  stack.flash_attention = false;
  stack.gradient_fusion = false;
  stack.eager_launches = true;
  stack.gathers_per_layer = 4;  // one per weight; smaller tensors stay whole (stage3_param_persistence_threshold)
  stack.overlap_grad_reduce = stack.overlap_param_gather = stack.p2p_overlap = stack.tp_async_reduce = false;
  return stack;
}

Stack megatron_lm() {  // as released from 2021 on: no overlap unless switched on
  Stack stack;
  stack.framework = "megatron-lm";
  stack.scatters_hand_overs = true;
  stack.cross_entropy = CrossEntropy::Unfused;
  stack.overlap_grad_reduce = stack.overlap_param_gather = false;
  return stack;
}

/// Research code beside Megatron: its layout of states, PyTorch's pointwise kernels.
Stack research() {
  Stack stack = megatron_lm();
  stack.framework = "research";
  stack.scatters_hand_overs = false;
  stack.attention_kernel = AttentionKernel::Flash2;
  stack.fused_pointwise = stack.fused_softmax = stack.tp_async_reduce = stack.gradient_fusion = false;
  return stack;
}

/// InternEvo: its hybrid ZeRO optimizer keeps 16-bit weights and whole 16-bit gradients beside sharded fp32 states.
Stack internevo() {
  Stack stack = fsdp_stack("internevo", false);
  stack.states = StateLayout::Megatron;
  stack.cross_entropy = CrossEntropy::Compiled;  // flash-attn's, and Apex's norm (internlm/model/losses, utils)
  stack.fused_norms = true;
  stack.keeps_gathered = stack.weighs_outputs = false;
  stack.fused_qkv = true;  // Wqkv beside w1 and w3 (internlm/model/modules)
  stack.prunes_recompute = false;
  stack.broadcasts_shards = true;  // internlm/solver/optimizer/hybrid_zero_optim.py, broadcast_params
  return stack;
}

/// The training code shipped with FlashAttention: its own fused kernels on plain data parallelism.
Stack flash_attention_repo() {
  Stack stack = megatron_lm();
  stack.framework = "flash-attn";
  stack.gradient_fusion = false;
  stack.attention_kernel = AttentionKernel::Flash2;
  stack.cross_entropy = CrossEntropy::FusedInPlace;
  return stack;
}

/// llm-foundry on Composer: MPT's default attention was the Triton kernel, its loss is flash-attn's
/// (llmfoundry/models/mpt/modeling_mpt.py, `loss_fn: fused_crossentropy`).
Stack composer() {
  Stack stack = fsdp_stack("composer", false);
  stack.cross_entropy = CrossEntropy::Compiled;
  stack.attention_kernel = AttentionKernel::Triton;
  stack.fused_qkv = true;  // Wqkv (llmfoundry/models/layers/attention.py)
  return stack;
}

Stack tuned() {  // NVIDIA's own recipes: everything overlapped
  Stack stack;
  stack.fused_biased_experts = false;
  stack.framework = "nemo";
  stack.tp_overlap = true;
  return stack;
}

/// DeepSeek's own stack: DeepEP sends one copy of a token to at most four nodes, in fp8, under compute of another
/// micro-batch (arXiv:2412.19437, section 3.2). Weights of GEMMs and what SwiGLU reads are kept in fp8 (section 3.3).
Stack hai_llm() {
  Stack stack = tuned();
  stack.framework = "hai-llm";
  stack.fp8_param_gather = stack.fp8_activation_input = true;
  stack.dedup_dispatch = stack.fp8_dispatch = stack.ep_overlap = true;
  stack.node_limit = 4;
  return stack;
}

/// Its norms and latent up-projections are recomputed (section 3.2.3), and what SwiGLU makes (section 3.3.3).
FrameworkDefaults deepseek() {
  FrameworkDefaults row{"HAI-LLM", hai_llm(), 1};
  row.recomputes = kRecomputeNorm | kRecomputeLatentUp | kRecomputeMoeActivation;
  return row;
}

/// Pax: attention as XLA compiled it in 2023; what its default checkpoint policy, SAVE_DOT_WITH_NO_BATCH_DIM, drops are
/// the scores (paxml/tasks/lm/model_params.py).
FrameworkDefaults pax() {
  FrameworkDefaults row{"Pax", maxtext_stack(), 0};
  row.stack.framework = "pax";
  row.stack.fused_qkv = true;  // COMBINE_QKV (paxml/tasks/lm/model_params.py)
  row.stack.flash_attention = row.stack.fused_softmax = false;
  row.recomputes = kRecomputeCoreAttention | kRecomputeNorm;
  return row;
}

/// IBM's fms-fsdp: the models of its foundation-model-stack fuse weights of one input (`fused_weights`), compiled.
Stack foundation_stack() {
  Stack stack = fsdp_stack("fsdp", true);
  stack.fused_qkv = stack.fused_gate = true;
  return stack;
}

/// LitGPT: queries, keys and values in one linear, fc_1 and fc_2 apart (litgpt/model.py).
Stack litgpt() {
  Stack stack = fsdp_stack("fsdp", false);
  stack.fused_qkv = true;
  return stack;
}

/// Megatron-Bridge's recipes dispatch with DeepEP or HybridEP: one copy of a token per node.
Stack bridge() {
  Stack stack = tuned();
  stack.dedup_dispatch = true;
  return stack;
}

/// Megatron Core as its README's tables ran it: "overlapping with PP (enabled by default)" is on when virtual stages
/// are (transformer/moe/README.md, P2P Comm Overlap).
/// Megatron Core under its own pretrain_gpt.py: --tp-comm-overlap is off unless a launch asks for it
/// (megatron/training/arguments.py), and FlagPerf's script does not.
FrameworkDefaults megatron_core(std::string_view keyword) {
  Stack stack = tuned();
  stack.tp_overlap = false;
  FrameworkDefaults row{keyword, stack, 1, 4, true};
  row.interleaves = true;
  return row;
}

/// Llama 3, arXiv:2407.21783 section 3.3.2: a chunk is one layer; the first holds the embedding alone, the last the
/// loss.
FrameworkDefaults meta() {
  Stack stack = tuned();
  stack.tp_overlap = false;  // its tensor parallelism stays inside a node because it is exposed
  FrameworkDefaults row{"Meta", stack, 2, 4, true, true, CpKind::AllGather};
  row.interleaves = true;
  row.order = AxisOrder::DataOutermost;  // [TP, CP, PP, DP], section 3.3.2
  return row;
}

/// NeMo Automodel: Hugging Face's models under FSDP2 and DTensor, each operation dispatched alone.
Stack automodel() {
  Stack stack = hugging_face_stack("automodel", StateLayout::Fsdp2);
  stack.reduces_per_linear = true;  // every linear of a DTensor plan takes its gradient back by itself
  return stack;
}

/// A row that recomputes as many layers as memory demands unless stated.
FrameworkDefaults to_fit(FrameworkDefaults row) {
  row.recomputes_to_fit = true;
  return row;
}

/// DeepSpeed's batch arithmetic: a `train_batch_size` alone is one micro-batch per rank, without accumulation.
FrameworkDefaults whole_batches(FrameworkDefaults row) {
  row.accumulates = false;
  return row;
}

const std::vector<FrameworkDefaults>& run_table() {
  static const std::vector<FrameworkDefaults> rows = {
      {"Megatron-DeepSpeed", deepspeed_era()},
      {"DeepSpeed 3D", deepspeed_era(), 1},
      whole_batches({"GPT-NeoX", deepspeed_era(), 1}),
      {"Composer", composer(), 3, 2},  // its benchmarks' `mixed_precision: PURE` reduces in 16 bits
      {"torchtitan", fsdp_stack("torchtitan", true), 3, 4, true, false, CpKind::AllGather},
      to_fit({"Automodel", automodel(), 3}),
      to_fit({"AutoModel", automodel(), 3}),  // as its pages before 2026 write it
      to_fit({"FSDP2", fsdp_stack("fsdp2", true), 3}),
      {"Megatron-Core FSDP", tuned(), 3, 4, true},
      {"FSDP1 + compile", foundation_stack(), 3, 2},  // fms-fsdp's `bfSixteen` policy reduces in 16 bits
      {"FSDP", fsdp_stack("fsdp", false), 3},
      {"LitGPT", litgpt(), 3},
      {"Bridge", bridge(), 1, 2, true, false},  // grad_reduce_in_fp32 = False in its perf_recipes, NeMo's too
      {"NeMo", tuned(), 1, 2, true},
      megatron_core("Megatron-Core"),
      {"MaxText", maxtext_stack(), 3, 4,
       true},  // its `activation_embed` is split over the tensor axis (configs/base.yml)
      {"InternEvo", internevo(), 1, 2},
      {"Aleph Alpha", research(), 1},
      {"flash-attn", flash_attention_repo(), 1},
      deepseek(),
      pax(),
      meta(),
      to_fit(whole_batches({"HF transformers", deepspeed_stack(), 3, 2})),
      whole_batches({"DeepSpeed", deepspeed_era(), 3, 2}),
  };
  return rows;
}

/// Whatever code nobody here has read: PyTorch's own kernels and loss, whole states unless a row shares them out.
Stack eager() {
  Stack stack = hugging_face_stack("eager", StateLayout::Megatron);
  stack.eager_launches = false;
  return stack;
}

}  // namespace

FrameworkDefaults run_defaults(std::string_view framework) {
  for (const FrameworkDefaults& row : run_table())
    if (framework.find(row.keyword) != std::string_view::npos) return row;
  if (framework.find("Megatron") == std::string_view::npos && !framework.empty())
    return {.keyword = "", .stack = eager(), .recomputes_to_fit = true};
  return {.keyword = "Megatron-LM", .stack = megatron_lm(), .flash_fp16 = false, .recomputes_to_fit = true};
}

std::span<const FrameworkRow> frameworks() {
  static const std::vector<FrameworkRow> rows = [] {
    std::vector<FrameworkRow> all;
    for (const auto& row : kFrameworkRows) all.push_back(row());
    return all;
  }();
  return rows;
}

bool runs_on(const FrameworkRow& row, std::string_view vendor) {
  return row.vendors.empty() || vendor.empty() || row.vendors.find(vendor) != std::string_view::npos;
}

std::optional<Framework> find_framework(std::string_view name) {
  for (const FrameworkRow& row : frameworks())
    if (row.name == name) return row.framework;
  return std::nullopt;
}

std::optional<Framework> framework_called(std::string_view alias) {
  for (const FrameworkRow& row : frameworks())
    for (std::string_view rest = row.aliases; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      if (word == alias) return row.framework;
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
  return std::nullopt;
}

}  // namespace plan
