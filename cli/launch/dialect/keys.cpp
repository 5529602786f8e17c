// Keys of the tools that fine-tune with Megatron-LM beside its flags: verl, NeMo-RL, ms-swift, LLaMA-Factory
// (plan-launch(7) 3.2 and 3.7). Tested by tests/launch/round_trip_test.cpp.
#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/dialect/elsewhere.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

using enum KeyKind;

constexpr DialectRow kVerl[] = {
    {"actor_rollout_ref.actor.megatron.*", "tensor-model-parallel-size"},
    {"actor_rollout_ref.actor.megatron.*", "sequence-parallel", On},
    {"actor_rollout_ref.actor.megatron.*", "pipeline-model-parallel-size num-virtual-stages-per-pipeline-rank"},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.*",
     "microbatch-group-size-per-virtual-pipeline-stage"},
    {"actor_rollout_ref.actor.megatron.*",
     "context-parallel-size expert-model-parallel-size expert-tensor-parallel-size"},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.*",
     "pipeline-model-parallel-layout decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers "
     "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split cp-comm-type "
     "hierarchical-context-parallel-sizes recompute-granularity recompute-method recompute-num-layers "
     "recompute-modules cross-entropy-loss-fusion cross-entropy-fusion-impl moe-grouped-gemm "
     "moe-token-dispatcher-type moe-flex-dispatcher-backend moe-router-dtype moe-router-fusion deterministic-mode "
     "no-gradient-accumulation-fusion attention-backend fp8-format fp8-recipe fp8-param-gather "
     "first-last-layers-bf16 num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 fp4-format fp4-recipe"},
    {"actor_rollout_ref.actor.megatron.*", "use-distributed-optimizer"},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.*",
     "overlap-moe-expert-parallel-comm tp-comm-overlap"},
    {"actor_rollout_ref.actor.megatron.override_ddp_config.*",
     "overlap-grad-reduce overlap-param-gather grad-reduce-in-bf16"},
    {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "micro-batch-size"},
    {"actor_rollout_ref.actor.megatron.override_transformer_config.*",
     "fine-grained-activation-offloading offload-modules"},
    {"actor_rollout_ref.actor.optim.override_optimizer_config.*",
     "optimizer-cpu-offload optimizer-offload-fraction overlap-cpu-optimizer-d2h-h2d use-precision-aware-optimizer"},
    {"actor_rollout_ref.actor.optim.*", "optimizer"},
    {"data.train_files", "data-path"},
    {"", "seq-length global-batch-size train-iters eval-interval save save-interval lr min-lr weight-decay clip-grad"},
    {"", kElsewhere},
};

constexpr DialectRow kNemoRl[] = {
    {"policy.megatron_cfg.*", "tensor-model-parallel-size"},
    {"policy.megatron_cfg.*", "sequence-parallel", {}, "false"},
    {"policy.megatron_cfg.*", "pipeline-model-parallel-size"},
    {"policy.megatron_cfg.model_overrides.*",
     "num-virtual-stages-per-pipeline-rank microbatch-group-size-per-virtual-pipeline-stage"},
    {"policy.megatron_cfg.*", "context-parallel-size expert-model-parallel-size expert-tensor-parallel-size"},
    {"policy.megatron_cfg.model_overrides.*", "pipeline-model-parallel-layout"},
    {"policy.megatron_cfg.*", "decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers"},
    {"policy.megatron_cfg.model_overrides.*",
     "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split cp-comm-type"},
    {"policy.megatron_cfg.*", "recompute-granularity recompute-modules"},
    {"policy.megatron_cfg.model_overrides.*", "hierarchical-context-parallel-sizes"},
    {"policy.megatron_cfg.*",
     "fine-grained-activation-offloading offload-modules moe-grouped-gemm moe-token-dispatcher-type"},
    {"policy.megatron_cfg.moe_enable_deepep", "moe-flex-dispatcher-backend", Switch},
    {"policy.megatron_cfg.*", "moe-router-dtype"},
    {"policy.megatron_cfg.optimizer.*", "use-distributed-optimizer"},
    {"policy.megatron_cfg.distributed_data_parallel_config.*", "overlap-grad-reduce overlap-param-gather", On},
    {"policy.megatron_cfg.distributed_data_parallel_config.*", "grad-reduce-in-bf16", {}, "true"},
    {"policy.megatron_cfg.optimizer.*", "use-precision-aware-optimizer", On},
    {"policy.megatron_cfg.optimizer.*",
     "optimizer-cpu-offload optimizer-offload-fraction overlap-cpu-optimizer-d2h-h2d optimizer lr min-lr "
     "weight-decay clip-grad"},
    {"policy.train_global_batch_size", "global-batch-size"},
    {"policy.train_micro_batch_size", "micro-batch-size"},
    {"policy.max_total_sequence_length", "seq-length"},
    {"policy.megatron_cfg.model_overrides.*",
     "cross-entropy-loss-fusion cross-entropy-fusion-impl deterministic-mode moe-router-fusion"},
    {"policy.megatron_cfg.*", "attention-backend"},
    {"", "recompute-method recompute-num-layers fp16 data-path train-iters eval-interval save save-interval"},
    {"", kElsewhere},
};

constexpr DialectRow kSkyRl[] = {
    {"trainer.policy.megatron_config.*",
     "tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size expert-model-parallel-size "
     "expert-tensor-parallel-size moe-token-dispatcher-type moe-grouped-gemm"},
    {"trainer.policy.megatron_config.transformer_config_kwargs.*",
     "num-virtual-stages-per-pipeline-rank microbatch-group-size-per-virtual-pipeline-stage "
     "pipeline-model-parallel-layout decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers "
     "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split cp-comm-type "
     "hierarchical-context-parallel-sizes recompute-granularity recompute-method recompute-num-layers "
     "recompute-modules cross-entropy-loss-fusion cross-entropy-fusion-impl moe-flex-dispatcher-backend "
     "moe-router-dtype moe-router-fusion deterministic-mode no-gradient-accumulation-fusion attention-backend "
     "fp8-format fp8-recipe fp8-param-gather fine-grained-activation-offloading offload-modules "
     "overlap-moe-expert-parallel-comm tp-comm-overlap"},
    {"trainer.policy.megatron_config.ddp_config.*", "overlap-grad-reduce overlap-param-gather grad-reduce-in-bf16"},
    {"trainer.policy.megatron_config.optimizer_config_kwargs.*",
     "optimizer-cpu-offload optimizer-offload-fraction overlap-cpu-optimizer-d2h-h2d use-precision-aware-optimizer "
     "optimizer"},
    {"trainer.micro_train_batch_size_per_gpu", "micro-batch-size"},
    {"", "use-distributed-optimizer sequence-parallel", On},  // its worker switches both on
    {"", kElsewhere},
};

constexpr DialectRow kSwift[] = {
    {"*",
     "tensor-model-parallel-size sequence-parallel pipeline-model-parallel-size "
     "num-virtual-stages-per-pipeline-rank"},
    {"microbatch_group_size_per_virtual_pipeline_stage", "microbatch-group-size-per-virtual-pipeline-stage"},
    {"*", "context-parallel-size expert-model-parallel-size expert-tensor-parallel-size"},
    {"decoder_first_pipeline_num_layers", "decoder-first-pipeline-num-layers"},
    {"decoder_last_pipeline_num_layers", "decoder-last-pipeline-num-layers"},
    {"*",
     "pipeline-model-parallel-layout account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split "
     "cp-comm-type"},
    {"*", "recompute-granularity", {}, "none"},
    {"*",
     "recompute-method recompute-num-layers recompute-modules cross-entropy-loss-fusion cross-entropy-fusion-impl "
     "moe-grouped-gemm moe-token-dispatcher-type"},
    {"moe_enable_deepep", "moe-flex-dispatcher-backend", Switch},
    {"*", "moe-router-dtype attention-backend no-gradient-accumulation-fusion"},
    {"fp8_format", "fp8-format"},
    {"*",
     "fp8-recipe fp8-param-gather use-distributed-optimizer overlap-grad-reduce overlap-param-gather "
     "tp-comm-overlap use-megatron-fsdp data-parallel-sharding-strategy optimizer use-precision-aware-optimizer"},
    {"*", "main-grads-dtype main-params-dtype exp-avg-dtype exp-avg-sq-dtype", Value},
    {"*", "optimizer-cpu-offload optimizer-offload-fraction"},
    {"megatron_extra_kwargs.*",
     "fine-grained-activation-offloading offload-modules hierarchical-context-parallel-sizes moe-router-fusion"},
    {"*", "lr min-lr weight-decay clip-grad micro-batch-size global-batch-size"},
    {"max_length", "seq-length"},
    {"*", "mtp-num-layers train-iters"},
    {"eval_steps", "eval-interval"},
    {"output_dir", "save"},
    {"save_steps", "save-interval"},
    {"dataset", "data-path"},
    {"", "overlap-cpu-optimizer-d2h-h2d fp16"},
    {"", kElsewhere},
};

constexpr DialectRow kLlamaFactory[] = {
    {"*",
     "tensor-model-parallel-size sequence-parallel pipeline-model-parallel-size "
     "num-virtual-stages-per-pipeline-rank context-parallel-size expert-model-parallel-size recompute-granularity "
     "recompute-method recompute-num-layers account-for-embedding-in-pipeline-split "
     "account-for-loss-in-pipeline-split"},
    {"extra_config.model.*",
     "recompute-modules expert-tensor-parallel-size pipeline-model-parallel-layout "
     "decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers cp-comm-type "
     "hierarchical-context-parallel-sizes fine-grained-activation-offloading offload-modules"},
    {"extra_config.ddp.*", "num-distributed-optimizer-instances grad-reduce-in-bf16"},
    {"extra_config.optimizer.*",
     "use-precision-aware-optimizer optimizer-cpu-offload optimizer-offload-fraction overlap-cpu-optimizer-d2h-h2d"},
    {"*", "cross-entropy-loss-fusion"},
    {"extra_config.model.*", "cross-entropy-fusion-impl moe-router-dtype moe-router-fusion"},
    {"*", "moe-token-dispatcher-type"},
    {"extra_config.model.*", "moe-flex-dispatcher-backend"},
    {"*", "moe-grouped-gemm use-distributed-optimizer"},
    {"*", "overlap-grad-reduce overlap-param-gather", On},
    {"per_device_train_batch_size", "micro-batch-size"},
    {"cutoff_len", "seq-length"},
    {"learning_rate", "lr"},
    {"max_steps", "train-iters"},
    {"*", "weight-decay"},
    {"max_grad_norm", "clip-grad"},
    {"",
     "fp16 global-batch-size optimizer min-lr fp8-format first-last-layers-bf16 num-layers-at-start-in-bf16 "
     "num-layers-at-end-in-bf16 fp8-recipe fp8-param-gather fp4-format fp4-recipe data-path eval-interval save "
     "save-interval"},
    {"", kElsewhere},
};

/// verl's sequences are prompts and responses, its step a mini-batch of prompts with their samples.
constexpr auto kVerlDerived = word_list([] {
  return "data.max_prompt_length data.max_response_length data.train_batch_size "
         "actor_rollout_ref.actor.ppo_mini_batch_size actor_rollout_ref.rollout.n "
         "actor_rollout_ref.actor.ppo_micro_batch_size actor_rollout_ref.actor.ppo_max_token_len_per_gpu "
         "actor_rollout_ref.model.lora.rank actor_rollout_ref.model.lora_rank "
         "actor_rollout_ref.actor.use_dynamic_bsz actor_rollout_ref.actor.use_kl_loss "
         "actor_rollout_ref.actor.optim.override_optimizer_config.main_grads_dtype "
         "actor_rollout_ref.actor.optim.override_optimizer_config.exp_avg_dtype "
         "actor_rollout_ref.actor.optim.override_optimizer_config.exp_avg_sq_dtype "
         "actor_rollout_ref.actor.optim.use_precision_aware_optimizer "
         "actor_rollout_ref.actor.optim.main_grads_dtype actor_rollout_ref.actor.optim.exp_avg_dtype "
         "actor_rollout_ref.actor.optim.exp_avg_sq_dtype";
});
constexpr auto kSkyRlDerived = word_list([] {
  return "trainer.max_prompt_length generator.max_input_length generator.sampling_params.max_generate_length "
         "trainer.policy_mini_batch_size "
         "trainer.train_batch_size generator.n_samples_per_prompt trainer.policy.model.lora.rank "
         "trainer.gradient_checkpointing trainer.micro_forward_batch_size_per_gpu trainer.strategy "
         "trainer.algorithm.max_seq_len";
});
// Of these, and of the other tools' below: what is counted with.
constexpr std::string_view kVerlNumbers[] = {"data.max_prompt_length",
                                             "data.max_response_length",
                                             "actor_rollout_ref.actor.ppo_mini_batch_size",
                                             "actor_rollout_ref.rollout.n",
                                             "actor_rollout_ref.model.lora.rank",
                                             "actor_rollout_ref.model.lora_rank",
                                             "actor_rollout_ref.actor.ppo_micro_batch_size",
                                             "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"};
constexpr std::string_view kSkyRlNumbers[] = {
    "trainer.max_prompt_length", "generator.sampling_params.max_generate_length", "trainer.policy_mini_batch_size",
    "generator.n_samples_per_prompt", "trainer.policy.model.lora.rank"};
constexpr std::string_view kNemoRlNumbers[] = {"policy.megatron_cfg.peft.dim"};
constexpr std::string_view kSwiftNumbers[] = {"lora_rank", "max_completion_length", "vllm_max_model_len"};
constexpr std::string_view kLlamaFactoryNumbers[] = {"gradient_accumulation_steps", "lora_rank"};
constexpr std::string_view kNemoRlSharding =  // of an FSDP that use_custom_fsdp turns on
    "policy.megatron_cfg.distributed_data_parallel_config.data_parallel_sharding_strategy";
constexpr std::string_view kNemoRlDerived[] = {"policy.megatron_cfg.activation_checkpointing",
                                               "policy.megatron_cfg.enabled",
                                               "policy.megatron_cfg.peft.enabled",
                                               "policy.megatron_cfg.peft.dim",
                                               "policy.dynamic_batching.enabled",
                                               "policy.sequence_packing.enabled",
                                               kNemoRlSharding};
constexpr auto kSwiftDerived = word_list([] {
  return "verb task_type tuner_type train_type lora_rank quant_bits rlhf_type ref_model max_completion_length "
         "vllm_max_model_len";
});
constexpr std::string_view kLlamaFactoryDerived[] = {
    "gradient_accumulation_steps", "finetuning_type", "lora_rank", "quantization_bit", "stage", "use_megatron_bridge"};

constexpr CountedAs kVerlCounted[] = {
    {"actor_rollout_ref.model.use_fused_kernels", "false", "an output layer fused with its loss is counted apart"},
    {"actor_rollout_ref.actor.megatron.qat.enable", "false", "quantization that is trained for is not counted"},
};
constexpr CountedAs kSkyRlCounted[] = {
    {"trainer.bf16", "true", "products are counted in bf16"},
    {"trainer.flash_attn", "true", "attention is counted as a fused kernel"},
};
constexpr CountedAs kNemoRlCounted[] = {
    {"policy.megatron_cfg.use_linear_ce_fusion_loss", "false", "a loss in chunks of the output is counted whole"},
    {"policy.megatron_cfg.linear_ce_fusion_chunk_size", "", "a loss in chunks of the output is counted whole"},
    {"policy.megatron_cfg.defer_fp32_logits", "false", "logits are counted as Megatron-LM's loss keeps them"},
    {"policy.draft.enabled", "false", "a draft model trained beside is not counted"},
};

}  // namespace

const Dialect& verl_dialect() {
  static const Dialect dialect{"verl",
                               keys_of_rows(kVerl),
                               "actor_rollout_ref.model.path",
                               "trainer.nnodes",
                               "trainer.n_gpus_per_node",
                               "actor_rollout_ref.actor.megatron.dtype",
                               kVerlDerived,
                               derive_verl,
                               kVerlCounted,
                               false,
                               kVerlNumbers,
                               verl_leaves_none};
  return dialect;
}
const Dialect& nemo_rl_dialect() {
  static const Dialect dialect{
      "nemo-rl",          keys_of_rows(kNemoRl), "policy.model_name", "cluster.num_nodes", "cluster.gpus_per_node",
      "policy.precision", kNemoRlDerived,        derive_nemo_rl,      kNemoRlCounted,      true,
      kNemoRlNumbers};
  return dialect;
}
const Dialect& skyrl_dialect() {
  static const Dialect dialect{"skyrl",
                               keys_of_rows(kSkyRl),
                               "trainer.policy.model.path",
                               "trainer.placement.policy_num_nodes",
                               "trainer.placement.policy_num_gpus_per_node",
                               "",
                               kSkyRlDerived,
                               derive_skyrl,
                               kSkyRlCounted,
                               false,
                               kSkyRlNumbers};
  return dialect;
}
const Dialect& swift_dialect() {
  static const Dialect dialect{"ms-swift",    keys_of_rows(kSwift), "model", "",    "",           "torch_dtype",
                               kSwiftDerived, derive_swift,         {},      false, kSwiftNumbers};
  return dialect;
}
const Dialect& llama_factory_dialect() {
  static const Dialect dialect{"llama-factory",     keys_of_rows(kLlamaFactory), "model_name_or_path", "", "",
                               "mixed_precision",   kLlamaFactoryDerived,        derive_llama_factory, {}, true,
                               kLlamaFactoryNumbers};
  return dialect;
}

}  // namespace plan
