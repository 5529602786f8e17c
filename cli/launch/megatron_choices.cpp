// Words that Megatron-LM's parsers take behind a flag, in any release from core 0.12 to 0.20. Made by
// tests/tools/megatron_flags.py from the parsers themselves.
#include "cli/launch/megatron_flags.hpp"

#include <algorithm>

namespace plan {
namespace {

struct Choices {
  std::string_view flag;
  std::string_view words;  ///< between blanks, one at either end too
};

constexpr Choices kChoices[] = {
    {"async-strategy", " mcore nvrx "},
    {"attention-backend", " auto flash fused local unfused "},
    {"batch-invariant-backend", " deepgemm te_native triton "},
    {"bert-embedder-type", " huggingface megatron "},
    {"ckpt-convert-format", " torch torch_dist zarr "},
    {"ckpt-format", " fsdp_dtensor torch torch_dcp torch_dist zarr "},
    {"ckpt-fully-parallel-load-exchange-algo", " broadcast gather_object gather_rounds "},
    {"ckpt-fully-parallel-load-process-group", " dp ep_dp "},
    {"ckpt-fully-parallel-save-process-group", " dp ep_dp "},
    {"cross-entropy-fusion-impl", " native te "},
    {"cuda-graph-impl", " full_iteration local none transformer_engine "},
    {"data-parallel-sharding-strategy", " no_shard optim optim_grads optim_grads_params "},
    {"dataloader-type", " cyclic external single "},
    {"dist-ckpt-strictness",
     " assume_ok_unexpected ignore_all log_all log_unexpected raise_all raise_unexpected return_all "
     "return_unexpected "},
    {"distributed-backend", " gloo nccl "},
    {"dsa-kernel-backend", " cudnn none tilelang "},
    {"empty-unused-memory-level", " 0 1 2 "},
    {"error-injection-type", " correct_result persistent_error transient_error "},
    {"exit-signal", " 1 10 11 12 13 14 15 16 17 18 19 2 20 21 22 23 24 25 26 27 28 29 3 30 31 34 4 5 6 64 7 8 9 "},
    {"exp-avg-dtype", " bf16 fp16 fp32 fp8 "},
    {"exp-avg-sq-dtype", " bf16 fp16 fp32 fp8 "},
    {"experimental-attention-variant", " dsa gated_delta_net gdn gdn2 "},
    {"flash-attention-version", " 2 3 4 "},
    {"fp4-format", " e2m1 "},
    {"fp4-recipe", " custom nvfp4 "},
    {"fp8-amax-compute-algo", " max most_recent "},
    {"fp8-format", " e4m3 hybrid "},
    {"fp8-recipe", " blockwise custom delayed mxfp8 tensorwise "},
    {"inference-cuda-graph-scope", " block layer none "},
    {"inference-dynamic-batching-async-sched-mode", " async legacy "},
    {"inference-dynamic-batching-cuda-graph-sizing-distribution", " exponential linear "},
    {"inference-dynamic-batching-logprobs-mode", " processed_logprobs raw_logprobs "},
    {"inference-dynamic-batching-prefix-caching-coordinator-policy",
     " first_prefix_block load_balanced longest_prefix round_robin "},
    {"inference-dynamic-batching-prefix-caching-eviction-policy", " lru ref_zero "},
    {"inference-dynamic-batching-sampling-backend", " flashinfer torch "},
    {"inference-dynamic-batching-unified-memory-level", " 0 1 "},
    {"inference-grouped-gemm-backend", " auto flashinfer te torch vllm "},
    {"inference-moe-token-dispatcher-type", " nccl nvls "},
    {"inprocess-granularity", " node rank "},
    {"kitchen-attention-backend", " fa sdpa "},
    {"logits-save-dtype", " bf16 fp16 fp32 "},
    {"lr-decay-style", " WSD constant cosine inverse-square-root linear "},
    {"lr-wsd-decay-style", " cosine exponential linear minus_sqrt "},
    {"main-grads-dtype", " bf16 fp32 "},
    {"main-params-dtype", " fp16 fp32 "},
    {"mamba-inference-conv-states-dtype", " bf16 fp16 fp32 "},
    {"mamba-inference-ssm-states-dtype", " bf16 fp16 fp32 "},
    {"mamba-training-ssm-states-dtype", " bf16 fp32 "},
    {"mask-type", " random row "},
    {"megatron-fsdp-grad-comm-dtype", " auto bf16 fp16 fp32 "},
    {"megatron-fsdp-main-grads-dtype", " auto bf16 fp16 fp32 "},
    {"megatron-fsdp-main-params-dtype", " auto bf16 fp16 fp32 "},
    {"megatron-fsdp-version", " 1 2 "},
    {"moe-combine-bwd-dtype", " bf16 mxfp8 "},
    {"moe-dispatch-fwd-dtype", " bf16 mxfp8 "},
    {"moe-flex-dispatcher-backend", " deepep hybridep ncclep "},
    {"moe-router-dtype", " fp32 fp64 "},
    {"moe-router-load-balancing-type", " aux_loss global_aux_loss none quantile_balancing seq_aux_loss sinkhorn "},
    {"moe-router-score-function", " sigmoid softmax sqrtsoftplus "},
    {"moe-token-dispatcher-type", " allgather alltoall alltoall_seq flex "},
    {"moe-token-drop-policy", " position probs "},
    {"muon-fp32-matmul-prec", " high low medium "},
    {"muon-scalar-optimizer", " adam lion "},
    {"muon-scale-mode", " shape_scaling spectral unit_rms_norm "},
    {"muon-tp-mode", " blockwise distributed duplicated "},
    {"no-weight-decay-cond-type", " apply_wd_to_qk_layernorm "},
    {"non-persistent-ckpt-type", " None global in_memory local "},
    {"non-persistent-local-ckpt-algo", " atomic fully_parallel "},
    {"normalization", " LayerNorm RMSNorm "},
    {"optimizer", " adam adaptive_muon dist_muon lion muon sgd soap "},
    {"outer-dp-sharding-strategy", " no_shard optim "},
    {"output-logit-dtype", " bf16 fp32 "},
    {"pipeline-model-parallel-comm-backend", " nccl ucc "},
    {"position-embedding-type", " learned_absolute mrope none relative rope yarn "},
    {"recompute-granularity", " full selective "},
    {"recompute-method", " block uniform "},
    {"refit-method", " gloo nccl nvshmem "},
    {"rerun-mode", " disabled report_stats validate_results "},
    {"rl-consumption-granularity", " B G R "},
    {"rl-inference-model-unified-memory-level", " 0 1 "},
    {"rl-kv-cache-management-mode", " offload persist recompute "},
    {"rl-sequence-packing-algo", " fifo round-robin "},
    {"rl-submission-granularity", " B G R "},
    {"rope-type", " rope yarn "},
    {"sharp-enabled-group", " dp dp_replica "},
    {"softmax-type", " learnable off-by-one vanilla "},
    {"swin-backbone-type", " base h3 tiny "},
    {"symmetric-ar-type", " None multimem_all_reduce one_shot two_shot "},
    {"timing-log-level", " 0 1 2 "},
    {"timing-log-option", " all max minmax "},
    {"tokenizer-type",
     " BertWordPieceCase BertWordPieceLowerCase GPT2BPETokenizer GPTSentencePieceTokenizer HuggingFaceTokenizer "
     "Llama2Tokenizer MultimodalTokenizer NullMultimodalTokenizer NullTokenizer SFTTokenizer SentencePieceTokenizer "
     "TikTokenizer "},
    {"tp-comm-bootstrap-backend", " gloo mpi nccl "},
    {"transformer-impl", " inference_optimized local transformer_engine "},
    {"vision-backbone-type", " mit swin vit "},
    {"vision-pretraining-type", " classify dino inpaint "},
    {"weight-decay-incr-style", " constant cosine linear "},
};

}  // namespace

std::string_view megatron_choices(std::string_view flag) {
  const auto* row = std::lower_bound(std::begin(kChoices), std::end(kChoices), flag,
                                     [](const Choices& choices, std::string_view name) { return choices.flag < name; });
  return row != std::end(kChoices) && row->flag == flag ? row->words : std::string_view();
}

}  // namespace plan
