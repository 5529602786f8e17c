#pragma once

#include <span>
#include <string_view>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/post_training/verl_commands.hpp"

/// Keys of verl's actor, of its supervised trainer, of NeMo-RL with DTensor, of SkyRL's policy and of EasyR1's actor,
/// as rows of one reading.
namespace plan::fsdp {

struct FsdpDialect {
  std::string_view format{};
  std::string_view model[2]{};
  std::string_view seq{};  ///< tokens of a sequence; empty: prompt and response make one
  std::string_view prompt{}, response{};
  int length = 0;            ///< default of each length
  int answer = 0;            ///< default of the response's, where it is another
  std::string_view batch{};  ///< samples, or prompts with `repeats` answers each
  int batch_otherwise = 0;
  std::string_view step{};  ///< samples of a step of several updates: each rank takes a whole share, as verl's do
  std::string_view repeats{};
  int repeats_otherwise = 1;
  std::string_view micro[2]{};
  int micro_otherwise = 0;          ///< 0: must be stated
  std::string_view micro_of_all{};  ///< of all data ranks together, where `micro` is not stated
  std::string_view tp{}, cp{}, replicate{}, ep{};
  std::string_view engine_cp{};  ///< another name of `cp`, which counts where that is not stated above 1
  std::string_view checkpointing{};
  bool checkpointing_otherwise = true;
  std::string_view lora{};
  std::string_view lora_switch{};  ///< what turns adapters on; empty: a rank above 0
  std::string_view other_lora{};   ///< the rank by which the tool's other engines train adapters, and this one none
  std::string_view offload[2]{};   ///< between updates, or during them where it is kept on the host
  bool offload_kept = false;
  std::string_view dynamic[2]{};   ///< packs micro-batches by tokens
  bool dynamic_otherwise = false;  ///< whether the first does where it is not stated
  std::string_view tokens[2]{};    ///< of each, how many a rank takes at once
  int tokens_otherwise = 0;        ///< 0: as many as the micro-batch that is stated
  std::string_view precision{};
  std::string_view nodes{}, gpus{};
  bool ray = false;                            ///< Ray starts the ranks, on as many nodes and GPUs as those keys say
  std::string_view sp{};                       ///< splits the sequence over tensor ranks
  std::string_view group[2]{};                 ///< ranks that share the weights; -1: all
  std::string_view reshard[2]{};               ///< false: gathered weights stay for the backward pass
  std::string_view weights[2]{};               ///< format of the weights that the optimizer steps on
  std::string_view optimizer{};                ///< by its class
  std::string_view targets{};                  ///< modules that get adapters
  std::string_view attention{};                ///< the kernel by transformers' name
  std::string_view chunked{};                  ///< fuses the output layer with what follows it
  std::string_view engine[2]{};                ///< keys that name who trains the actor
  std::string_view engines{};                  ///< their words for what is counted
  std::span<const CountedAs> counted{};        ///< reported where it has another value
  std::span<const std::string_view> own;       ///< sections of the trained model: a weighty name there is reported
  std::span<const std::string_view> theirs{};  ///< the tool's other sections: a weighty name in none of them, too
};

inline constexpr CountedAs kActorCounted[] = {
    {"actor_rollout_ref.actor.fsdp_config.dtype", "bfloat16 bf16", "products are counted in bf16"},
    {"actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype", "bf16 bfloat16 null",
     "products are counted in bf16"},
    {"actor_rollout_ref.actor.fsdp_config.mixed_precision.reduce_dtype", "fp32 float32 null",
     "gradients are counted as reduced in fp32"},
    {"actor_rollout_ref.model.enable_activation_offload", "false False null",
     "activations that go to the host are counted on the GPU"},
    {"actor_rollout_ref.model.tiled_mlp.enabled", "false False null", "a feed-forward in tiles is counted whole"},
    {"actor_rollout_ref.model.exclude_modules", "null", "adapters of all modules are counted"},
    // need_reference_policy() and need_critic() of trainer/ppo/utils.py; every estimator of core_algos.py but GAE.
    {"actor_rollout_ref.actor.use_kl_loss", "false", "the reference model beside the trained one is not counted"},
    {"algorithm.use_kl_in_reward", "false", "the reference model beside the trained one is not counted"},
    {"algorithm.adv_estimator",
     "grpo reinforce_plus_plus reinforce_plus_plus_baseline remax rloo opo grpo_passk gpg rloo_vectorized "
     "grpo_vectorized optimal_token_baseline tir_optimal_token_baseline gdpo",
     "a critic beside the trained model is not counted"},
};
inline constexpr std::string_view kActorSections[] = {
    "actor_rollout_ref.actor.fsdp_config.", "actor_rollout_ref.model.", "actor_rollout_ref.actor.", "trainer."};
/// A program of its own that is built on verl adds sections: `dpo.batch_size`.
inline constexpr std::string_view kActorOthers[] = {"actor_rollout_ref.",
                                                    "critic.",
                                                    "reward_model.",
                                                    "reward.",
                                                    "data.",
                                                    "algorithm.",
                                                    "ray_",
                                                    "rollout.",
                                                    "hydra.",
                                                    "global_profiler.",
                                                    "transfer_queue.",
                                                    "custom_reward_function.",
                                                    "distillation.",
                                                    "async_training."};
inline constexpr CountedAs kSftCounted[] = {
    {"data.micro_batch_size", "null",
     "releases since 0.2 pass over it: `data.micro_batch_size_per_gpu` is counted, 4 where that is not stated"},
    {"model.strategy", "fsdp fsdp2", "the model is counted as trained with FSDP"},
    {"engine.strategy", "fsdp fsdp2", "the model is counted as trained with FSDP"},
    {"engine.mixed_precision.reduce_dtype", "fp32 float32 null", "gradients are counted as reduced in fp32"},
    {"model.enable_activation_offload", "false False null", "activations that go to the host are counted on the GPU"},
    {"model.tiled_mlp.enabled", "false False null", "a feed-forward in tiles is counted whole"},
};
inline constexpr std::string_view kSftSections[] = {"model.", "engine.", "trainer."};
inline constexpr CountedAs kDtensorCounted[] = {
    {"policy.draft.enabled", "false False null", "a draft model trained beside is not counted"},
};
inline constexpr std::string_view kDtensorSections[] = {"policy.dtensor_cfg.", "cluster."};
/// What verl moves off the GPU between updates alone, what repeats another key, and what is no switch of its own.
inline constexpr std::string_view kPlainEndings[] = {"fsdp_config.strategy",
                                                     "wrap_policy.min_num_params",
                                                     "lora_alpha",
                                                     "ppo_max_token_len_per_gpu",
                                                     "fsdp_config.use_orig_params",
                                                     "fsdp_config.forward_only",
                                                     "offload_after_step",
                                                     "offload.offload_params",
                                                     "offload.offload_optimizer",
                                                     "micro_batch_size_per_device_for_experience"};

inline constexpr FsdpDialect kVerlActor{
    .format = "verl",
    .model = {"actor_rollout_ref.model.path", {}},
    .prompt = "data.max_prompt_length",
    .response = "data.max_response_length",
    .length = 512,
    .batch = verl::kMiniBatch,
    .batch_otherwise = verl::kDefaultMiniBatch,
    .step = verl::kStep,
    .repeats = "actor_rollout_ref.rollout.n",
    .micro = {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", {}},
    .micro_of_all = "actor_rollout_ref.actor.ppo_micro_batch_size",
    .cp = "actor_rollout_ref.actor.ulysses_sequence_parallel_size",
    .engine_cp = "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size",
    .checkpointing = "actor_rollout_ref.model.enable_gradient_checkpointing",
    .lora = "actor_rollout_ref.model.lora_rank",
    .other_lora = "actor_rollout_ref.model.lora.rank",
    .offload = {"actor_rollout_ref.actor.fsdp_config.offload_policy", {}},
    .offload_kept = true,
    .dynamic = {"actor_rollout_ref.actor.use_dynamic_bsz", {}},
    .tokens = {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", {}},
    .tokens_otherwise = 16384,
    .nodes = "trainer.nnodes",
    .gpus = "trainer.n_gpus_per_node",
    .ray = true,
    .group = {"actor_rollout_ref.actor.fsdp_config.fsdp_size", {}},
    .reshard = {"actor_rollout_ref.actor.fsdp_config.reshard_after_forward", {}},
    .weights = {"actor_rollout_ref.actor.fsdp_config.model_dtype", {}},
    .optimizer = "actor_rollout_ref.actor.optim.optimizer",
    .targets = "actor_rollout_ref.model.target_modules",
    .attention = "actor_rollout_ref.model.override_config.attn_implementation",
    .chunked = "actor_rollout_ref.model.use_fused_kernels",
    .engine = {"actor_rollout_ref.actor.strategy", "model_engine"},
    .engines = "fsdp fsdp2 dp",
    .counted = kActorCounted,
    .own = kActorSections,
    .theirs = kActorOthers};

/// The same actor on VeOmni's FSDP2, whose configuration is a section of its own.
inline constexpr FsdpDialect kVerlVeOmni = [] {
  FsdpDialect actor = kVerlActor;
  actor.cp = "actor_rollout_ref.actor.veomni.ulysses_parallel_size";
  actor.engine_cp = {};
  actor.ep = "actor_rollout_ref.actor.veomni.expert_parallel_size";
  actor.offload[0] = "actor_rollout_ref.actor.veomni.enable_fsdp_offload";
  actor.group[0] = "actor_rollout_ref.actor.veomni.fsdp_size";
  actor.reshard[0] = "actor_rollout_ref.actor.veomni.enable_full_shard";
  actor.weights[0] = {};
  actor.engines = "veomni fsdp2";
  actor.attention = "actor_rollout_ref.actor.veomni.attn_implementation";
  return actor;
}();

inline constexpr FsdpDialect kVerlSft{.format = "verl-sft",
                                      .model = {"model.partial_pretrain", "model.path"},
                                      .seq = "data.max_length",
                                      .length = 1024,
                                      .batch = "data.train_batch_size",
                                      .batch_otherwise = 256,
                                      .micro = {"data.micro_batch_size_per_gpu", {}},
                                      .micro_otherwise = 4,
                                      .cp = "ulysses_sequence_parallel_size",
                                      .engine_cp = "engine.ulysses_sequence_parallel_size",
                                      .checkpointing = "model.enable_gradient_checkpointing",
                                      .lora = "model.lora_rank",
                                      .offload = {"model.fsdp_config.cpu_offload", "engine.offload_policy"},
                                      .offload_kept = true,
                                      .dynamic = {"data.use_dynamic_bsz", {}},
                                      .tokens = {"data.max_token_len_per_gpu", {}},
                                      .tokens_otherwise = 8192,
                                      .nodes = "trainer.nnodes",
                                      .gpus = "trainer.n_gpus_per_node",
                                      .group = {"engine.fsdp_size", "model.fsdp_config.fsdp_size"},
                                      .reshard = {"engine.reshard_after_forward", {}},
                                      .weights = {"model.fsdp_config.model_dtype", "engine.model_dtype"},
                                      .optimizer = "optim.optimizer",
                                      .targets = "model.target_modules",
                                      .attention = "model.override_config.attn_implementation",
                                      .counted = kSftCounted,
                                      .own = kSftSections};

/// The trainer that takes its place since 0.6, whose configuration packs (trainer/config/sft_trainer_engine.yaml).
inline constexpr FsdpDialect kVerlSftEngine = [] {
  FsdpDialect trainer = kVerlSft;
  trainer.dynamic_otherwise = true;
  return trainer;
}();

inline constexpr FsdpDialect kNemoRl{
    .format = "nemo-rl",
    .model = {"policy.model_name", {}},
    .seq = "policy.max_total_sequence_length",
    .length = 0,
    .batch = "policy.train_global_batch_size",
    .batch_otherwise = 0,
    .micro = {"policy.train_micro_batch_size", {}},
    .tp = "policy.dtensor_cfg.tensor_parallel_size",
    .cp = "policy.dtensor_cfg.context_parallel_size",
    .replicate = "policy.dtensor_cfg.dp_replicate_size",
    .ep = "policy.dtensor_cfg.expert_parallel_size",
    .checkpointing = "policy.dtensor_cfg.activation_checkpointing",
    .checkpointing_otherwise = false,
    .lora = "policy.dtensor_cfg.lora_cfg.dim",
    .lora_switch = "policy.dtensor_cfg.lora_cfg.enabled",
    .offload = {"policy.dtensor_cfg.cpu_offload", {}},
    .offload_kept = true,
    .dynamic = {"policy.dynamic_batching.enabled", "policy.sequence_packing.enabled"},
    .tokens = {"policy.dynamic_batching.train_mb_tokens", "policy.sequence_packing.train_mb_tokens"},
    .precision = "policy.precision",
    .nodes = "cluster.num_nodes",
    .gpus = "cluster.gpus_per_node",
    .ray = true,
    .sp = "policy.dtensor_cfg.sequence_parallel",
    .optimizer = "policy.optimizer.name",
    .counted = kDtensorCounted,
    .own = kDtensorSections};

inline constexpr CountedAs kSkyRlCounted[] = {
    {"trainer.bf16", "true", "products are counted in bf16"},
    {"trainer.flash_attn", "true", "attention is counted as a fused kernel"},
    {"trainer.policy.fsdp_config.mixed_precision.param_dtype", "bf16 bfloat16 null", "products are counted in bf16"},
    {"trainer.policy.fsdp_config.mixed_precision.reduce_dtype", "fp32 float32 null",
     "gradients are counted as reduced in fp32"},
    {"trainer.policy.model.lora.exclude_modules", "null", "adapters of all modules are counted"},
    {"trainer.policy.use_torch_compile", "false False", "kernels that torch.compile fuses are counted one by one"},
};
inline constexpr std::string_view kSkyRlSections[] = {"trainer.policy."};

inline constexpr FsdpDialect kSkyRl{.format = "skyrl",
                                    .model = {"trainer.policy.model.path", {}},
                                    .prompt = "trainer.max_prompt_length",
                                    .response = "generator.sampling_params.max_generate_length",
                                    .length = 512,
                                    .answer = 1024,
                                    .batch = "trainer.policy_mini_batch_size",
                                    .batch_otherwise = 256,
                                    .repeats = "generator.n_samples_per_prompt",
                                    .repeats_otherwise = 5,
                                    .micro = {"trainer.micro_train_batch_size_per_gpu", {}},
                                    .micro_otherwise = 1,
                                    .cp = "trainer.policy.sequence_parallel_size",
                                    .checkpointing = "trainer.gradient_checkpointing",
                                    .lora = "trainer.policy.model.lora.rank",
                                    .offload = {"trainer.policy.fsdp_config.cpu_offload", {}},
                                    .nodes = "trainer.placement.policy_num_nodes",
                                    .gpus = "trainer.placement.policy_num_gpus_per_node",
                                    .ray = true,
                                    .group = {"trainer.policy.fsdp_config.fsdp_size", {}},
                                    .reshard = {"trainer.policy.fsdp_config.reshard_after_forward", {}},
                                    .targets = "trainer.policy.model.lora.target_modules",
                                    .engine = {"trainer.strategy", {}},
                                    .engines = "fsdp fsdp2",
                                    .counted = kSkyRlCounted,
                                    .own = kSkyRlSections};

inline constexpr CountedAs kEasyR1Counted[] = {
    {"worker.actor.fsdp.mp_reduce_dtype", "fp32 float32 null", "gradients are counted as reduced in fp32"},
    {"worker.actor.optim.strategy", "adamw", "the optimizer's states are counted in the format of the weights"},
    {"worker.actor.model.lora.exclude_modules", "null .*visual.*", "adapters of all modules are counted"},
    {"worker.actor.strategy", "fsdp", "the actor is counted as trained with FSDP"},
    {"algorithm.adv_estimator", "grpo reinforce_plus_plus remax rloo",
     "a critic beside the trained model is not counted"},
};
inline constexpr std::string_view kEasyR1Sections[] = {"worker.actor.", "trainer."};

inline constexpr FsdpDialect kEasyR1{.format = "easyr1",
                                     .model = {"worker.actor.model.model_path", {}},
                                     .prompt = "data.max_prompt_length",
                                     .response = "data.max_response_length",
                                     .length = 512,
                                     .batch = "worker.actor.global_batch_size",
                                     .batch_otherwise = 256,
                                     .repeats = "worker.rollout.n",
                                     .micro = {"worker.actor.micro_batch_size_per_device_for_update", {}},
                                     .micro_otherwise = 4,
                                     .cp = "worker.actor.ulysses_size",
                                     .engine_cp = "worker.actor.ulysses_sequence_parallel_size",
                                     .checkpointing = "worker.actor.model.enable_gradient_checkpointing",
                                     .lora = "worker.actor.model.lora.rank",
                                     .offload = {"worker.actor.fsdp.enable_cpu_offload", {}},
                                     .offload_kept = true,
                                     .precision = "worker.actor.fsdp.mp_param_dtype",
                                     .nodes = "trainer.nnodes",
                                     .gpus = "trainer.n_gpus_per_node",
                                     .ray = true,
                                     .group = {"worker.actor.fsdp.fsdp_size", {}},
                                     .reshard = {"worker.actor.fsdp.enable_full_shard", {}},
                                     .weights = {"worker.actor.fsdp.torch_dtype", {}},
                                     .optimizer = "worker.actor.optim.strategy",
                                     .targets = "worker.actor.model.lora.target_modules",
                                     .counted = kEasyR1Counted,
                                     .own = kEasyR1Sections};

}  // namespace plan::fsdp
