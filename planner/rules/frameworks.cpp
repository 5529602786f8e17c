#include "planner/rules/frameworks.hpp"

#include <vector>

namespace plan {
namespace {

/// Megatron-LM with Transformer Engine, as its own recipes run it; the environment that plans are made
/// for sets PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
Stack megatron() {
  Stack stack;
  stack.expandable_segments = true;
  return stack;
}

/// The newest releases refuse TransformerEngine's fused loss; the native one works on fp32 logits.
Stack newest_megatron() {
  Stack stack = megatron();
  stack.cross_entropy = CrossEntropy::Unfused;
  return stack;
}

/// The best practice of the field, not tied to one code base.
Stack any() {
  Stack stack = megatron();
  stack.framework = "any";
  stack.dedup_dispatch = stack.fp8_dispatch = true;  // DeepEP and HybridEP
  return stack;
}

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

/// PyTorch with fully sharded data parallelism; `compiled` fuses the pointwise kernels, the loss among them, and what
/// is eager keeps what autograd saves of every operation. DTensor keeps the gathered input of a linear, and
/// redistributes its gradient when that linear's backward, weight gradient included, has run. Scores weigh the experts'
/// outputs in fp32 (torchtitan, moe.py).
Stack fsdp(std::string_view name, bool compiled) {
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

/// JAX: XLA schedules collectives beside whatever does not need them, and lays out all memory of a step beforehand.
Stack maxtext() {
  Stack stack = fsdp("maxtext", true);
  stack.gathers_tensors = stack.expandable_segments = true;
  stack.cross_entropy = CrossEntropy::Unfused;
  stack.tp_async_reduce = true;
  stack.keeps_gathered = stack.weighs_outputs = false;
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
  Stack stack = fsdp("internevo", false);
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
  Stack stack = fsdp("composer", false);
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
  FrameworkDefaults row{"Pax", maxtext(), 0};
  row.stack.framework = "pax";
  row.stack.fused_qkv = true;  // COMBINE_QKV (paxml/tasks/lm/model_params.py)
  row.stack.flash_attention = row.stack.fused_softmax = false;
  row.recomputes = kRecomputeCoreAttention | kRecomputeNorm;
  return row;
}

/// IBM's fms-fsdp: the models of its foundation-model-stack fuse weights of one input (`fused_weights`), compiled.
Stack foundation_stack() {
  Stack stack = fsdp("fsdp", true);
  stack.fused_qkv = stack.fused_gate = true;
  return stack;
}

/// LitGPT: queries, keys and values in one linear, fc_1 and fc_2 apart (litgpt/model.py).
Stack litgpt() {
  Stack stack = fsdp("fsdp", false);
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
/// (megatron/training/arguments.py), and neither FlagPerf's script nor Megatron-MoE-ModelZoo's configurations do.
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

/// DeepSpeed around a Hugging Face model: its own states and buckets, PyTorch's eager kernels, logits whole on each
/// rank (DeepSpeed 0.19.8's defaults: overlap_comm at stage 3; transformers' ForCausalLMLoss in fp32).
Stack hugging_face(std::string_view name, StateLayout states) {
  Stack stack = fsdp(name, false);
  stack.states = states;
  stack.vocab_parallel_loss = false;
  stack.eager_launches = true;
  return stack;
}

Stack deepspeed() {
  Stack stack = hugging_face("deepspeed", StateLayout::DeepSpeed);
  stack.gathers_per_layer = 9;  // seven linears and two norms, each fetched by its module's hook
  return stack;
}

/// NeMo Automodel: Hugging Face's models under FSDP2 and DTensor, each operation dispatched alone.
Stack automodel() {
  Stack stack = hugging_face("automodel", StateLayout::Fsdp2);
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
      {"torchtitan", fsdp("torchtitan", true), 3, 4, true, false, CpKind::AllGather},
      to_fit({"Automodel", automodel(), 3}),
      to_fit({"AutoModel", automodel(), 3}),  // as its pages before 2026 write it
      to_fit({"FSDP2", fsdp("fsdp2", true), 3}),
      {"Megatron-Core FSDP", tuned(), 3, 4, true},
      {"FSDP1 + compile", foundation_stack(), 3, 2},  // fms-fsdp's `bfSixteen` policy reduces in 16 bits
      {"FSDP", fsdp("fsdp", false), 3},
      {"LitGPT", litgpt(), 3},
      {"Bridge", bridge(), 1, 2, true, false},  // grad_reduce_in_fp32 = False in its perf_recipes, NeMo's too
      {"NeMo", tuned(), 1, 2, true},
      megatron_core("Megatron-Core"),
      {"MaxText", maxtext(), 3, 4, true},  // its `activation_embed` is split over the tensor axis (configs/base.yml)
      {"InternEvo", internevo(), 1, 2},
      {"Aleph Alpha", research(), 1},
      {"flash-attn", flash_attention_repo(), 1},
      deepseek(),
      pax(),
      meta(),
      to_fit(whole_batches({"HF transformers", deepspeed(), 3, 2})),
      whole_batches({"DeepSpeed", deepspeed_era(), 3, 2}),
  };
  return rows;
}

/// Whatever code nobody here has read: PyTorch's own kernels and loss, whole states unless a row shares them out.
Stack eager() {
  Stack stack = hugging_face("eager", StateLayout::Megatron);
  stack.eager_launches = false;
  return stack;
}

/// torchtitan as its run_train.sh starts it: compiled blocks and loss, expandable segments.
Stack torchtitan() {
  Stack stack = fsdp("torchtitan", true);
  stack.expandable_segments = true;
  return stack;
}

const std::vector<FrameworkRow>& table() {
  static const std::vector<FrameworkRow> rows = {
      {Framework::Any, "any", "one that exists: what some framework runs today", any()},
      // Also AMD's own port, github.com/ROCm/Megatron-LM.
      {Framework::Megatron, "megatron", "Megatron-LM and its dialects", newest_megatron(), "nvidia amd"},
      // torchtitan's README: CUDA and ROCm; its XPU runs are no Gaudi.
      {Framework::Torchtitan, "torchtitan", "PyTorch's own: FSDP2 with tp, cp, pp and ep", torchtitan(), "nvidia amd"},
      // deepspeed.ai/tutorials/accelerator-setup-guide
      {Framework::DeepSpeed, "deepspeed", "ZeRO 0-3 with AutoTP, AutoEP or Ulysses", deepspeed(), "nvidia amd intel"},
      // accelerate/utils/imports.py: CUDA, HPU (Gaudi); its parallelism_config.py asks for a torch device mesh.
      {Framework::Accelerate, "accelerate", "Hugging Face: FSDP2 with tp and cp",
       hugging_face("accelerate", StateLayout::Fsdp2), "nvidia amd intel"},
      // MaxText's README: TPUs and NVIDIA GPUs; AMD's port, rocm.docs.amd.com, "Training a model with JAX MaxText".
      {Framework::Maxtext, "maxtext", "JAX: every axis a mesh axis, split over slices", maxtext(), "google nvidia amd"},
      {Framework::None, "none", "no framework's limits, only what divides", any()},
  };
  return rows;
}

}  // namespace

FrameworkDefaults run_defaults(std::string_view framework) {
  for (const FrameworkDefaults& row : run_table())
    if (framework.find(row.keyword) != std::string_view::npos) return row;
  if (framework.find("Megatron") == std::string_view::npos && !framework.empty())
    return {.keyword = "", .stack = eager(), .recomputes_to_fit = true};
  return {.keyword = "Megatron-LM", .stack = megatron_lm(), .flash_fp16 = false, .recomputes_to_fit = true};
}

std::span<const FrameworkRow> frameworks() { return table(); }

bool runs_on(const FrameworkRow& row, std::string_view vendor) {
  return row.vendors.empty() || vendor.empty() || row.vendors.find(vendor) != std::string_view::npos;
}

const FrameworkRow& framework_row(Framework framework) {
  for (const FrameworkRow& row : table())
    if (row.framework == framework) return row;
  return table().front();
}

std::optional<Framework> find_framework(std::string_view name) {
  for (const FrameworkRow& row : table())
    if (row.name == name) return row.framework;
  return std::nullopt;
}

}  // namespace plan
