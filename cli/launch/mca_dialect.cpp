// LLaMA-Factory over mcore_adapter (USE_MCA=1, its releases up to 0.9.5): read, not written. Keys and defaults are
// those of mcore_adapter's training_args.py and models/model_config.py (github.com/alibaba/ROLL). Tested by
// tests/launch/mca_test.cpp.
#include <algorithm>

#include "cli/launch/dialect.hpp"
#include "cli/launch/extra_config.hpp"

namespace plan {
namespace {

using enum KeyKind;

constexpr DialectKey kKeys[] = {
    {"tensor-model-parallel-size", "tensor_model_parallel_size", Value},
    {"sequence-parallel", "sequence_parallel", Switch},
    {"pipeline-model-parallel-size", "pipeline_model_parallel_size", Value},
    {"num-virtual-stages-per-pipeline-rank", "virtual_pipeline_model_parallel_size", Value},
    {"context-parallel-size", "context_parallel_size", Value},
    {"expert-model-parallel-size", "expert_model_parallel_size", Value},
    {"expert-tensor-parallel-size", "expert_tensor_parallel_size", Value},
    {"account-for-embedding-in-pipeline-split", "account_for_embedding_in_pipeline_split", Switch},
    {"account-for-loss-in-pipeline-split", "account_for_loss_in_pipeline_split", Switch},
    {"pipeline-model-parallel-layout", "pipeline_model_parallel_layout", Value},
    {"decoder-first-pipeline-num-layers", "num_layers_in_first_pipeline_stage", Value},
    {"decoder-last-pipeline-num-layers", "num_layers_in_last_pipeline_stage", Value},
    {"recompute-granularity", "recompute_granularity", Value},
    {"recompute-method", "recompute_method", Value},
    {"recompute-num-layers", "recompute_num_layers", Value},
    {"recompute-modules", "recompute_modules", List},
    {"cp-comm-type", "cp_comm_type", Value},
    {"use-distributed-optimizer", "use_distributed_optimizer", Switch},
    {"overlap-grad-reduce", "overlap_grad_reduce", Switch},
    {"overlap-param-gather", "overlap_param_gather", Switch},
    {"optimizer-cpu-offload", "optimizer_cpu_offload", Switch},
    {"optimizer-offload-fraction", "optimizer_offload_fraction", Value},
    {"moe-token-dispatcher-type", "moe_token_dispatcher_type", Value},
    {"moe-grouped-gemm", "moe_grouped_gemm", Switch},
    {"moe-shared-expert-overlap", "moe_shared_expert_overlap", Switch},
    {"moe-expert-capacity-factor", "moe_expert_capacity_factor", Value},
    {"moe-pad-expert-input-to-capacity", "moe_pad_expert_input_to_capacity", Switch},
    {"moe-router-dtype", "moe_router_dtype", Value},
    {"moe-aux-loss-coeff", "moe_aux_loss_coeff", Value},
    {"cross-entropy-loss-fusion", "cross_entropy_loss_fusion", Switch},
    {"transformer-impl", "transformer_impl", Value},
    {"fp8-format", "fp8", Value},
    {"fp8-recipe", "fp8_recipe", Value},
    {"first-last-layers-bf16", "first_last_layers_bf16", Switch},
    {"num-layers-at-start-in-bf16", "num_layers_at_start_in_bf16", Value},
    {"num-layers-at-end-in-bf16", "num_layers_at_end_in_bf16", Value},
    {"cuda-graph-impl", "cuda_graph_impl", Value},
    {"cuda-graph-scope", "cuda_graph_scope", List},
    {"micro-batch-size", "per_device_train_batch_size", Value},
    {"seq-length", "cutoff_len", Value},
    {"optimizer", "optimizer", Value},
    {"lr", "learning_rate", Value},
    {"train-iters", "max_steps", Value},
    {"weight-decay", "weight_decay", Value},
    {"clip-grad", "max_grad_norm", Value},
};

constexpr std::string_view kDerived[] = {
    "gradient_accumulation_steps", "finetuning_type", "lora_rank", "quantization_bit", "stage", "moe_layer_recompute"};

/// Keys that no other of LLaMA-Factory's backends has.
constexpr std::string_view kOwn[] = {"additional_configs",
                                     "bias_activation_fusion",
                                     "apply_rope_fusion",
                                     "moe_layer_recompute",
                                     "expert_tensor_parallel_size",
                                     "pipeline_model_parallel_layout",
                                     "recompute_modules",
                                     "overlap_p2p_comm",
                                     "variable_seq_lengths",
                                     "moe_shared_expert_overlap",
                                     "calculate_per_token_loss",
                                     "delay_grad_reduce",
                                     "ddp_average_in_collective",
                                     "sequence_packing",
                                     "transformer_impl",
                                     "use_mca"};
constexpr std::string_view kAdditional = "additional_configs";

constexpr Dialect kDialect{"llama-factory",   kKeys,    {},        "model_name_or_path", "", "",
                           "mixed_precision", kDerived, derive_mca};

}  // namespace

const Dialect& mca_dialect() { return kDialect; }

bool is_mca(const LaunchSource& source) {
  if (mentions(source, "USE_MCA")) return true;
  const Result<DialectKeys> keys = keys_of_yaml(source);
  if (!keys) return false;
  const auto own = [](const auto& row) {
    return row.first.starts_with(kAdditional) ||
           std::find(std::begin(kOwn), std::end(kOwn), row.first) != std::end(kOwn);
  };
  // Megatron-Bridge refuses full recomputation that names no method; here it is every layer's.
  const bool every_layer = word_of(*keys, "recompute_granularity") == "full" && !keys->contains("recompute_method") &&
                           !keys->contains("recompute_num_layers");
  return every_layer || std::any_of(keys->begin(), keys->end(), own);
}

Result<DialectKeys> keys_of_llama_factory(const LaunchSource& source, bool mca) {
  Result<DialectKeys> keys = keys_of_yaml(source);
  if (!keys) return keys;
  if (mca) lay_over(*keys, kAdditional, [](const std::string&) { return true; });
  if (!mca) unfold_json(*keys, "extra_config");
  if (mentions(source, "USE_MEGATRON_BRIDGE")) (*keys)["use_megatron_bridge"] = {{"true"}, source.path};
  return keys;
}

}  // namespace plan
