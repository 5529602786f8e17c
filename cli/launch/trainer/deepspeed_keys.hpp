#pragma once

#include <span>
#include "formulas/words.hpp"

/// Names of DeepSpeed 0.19.8's file (runtime/config.py, runtime/zero/config.py, runtime/activation_checkpointing).
namespace plan::deepspeed {

/// Sections and scalars that DeepSpeed knows at the top of its file; what is not among them it passes over.
inline constexpr auto kTop = word_list([] {
  return "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps "
         "managed_gradient_accumulation optimizer scheduler fp16 bf16 bfloat16 amp torch_autocast data_types "
         "gradient_clipping prescale_gradients gradient_predivide_factor gradient_allreduce_op "
         "sparse_gradients communication_data_type seq_parallel_communication_data_type disable_allgather "
         "zero_optimization zero_allow_untested_optimizer zero_force_ds_cpu_optimizer steps_per_print "
         "wall_clock_breakdown memory_breakdown dump_state disable_python_gc log_level timers "
         "activation_checkpointing tensor_parallel expert_parallel sequence_parallel_size data_parallel_size "
         "pipeline use_data_before_expert_parallelism compile hybrid_engine tensorboard wandb csv_monitor "
         "comet comms_logger flops_profiler aio autotuning compression_training data_efficiency "
         "curriculum_learning data_sampling eigenvalue progressive_layer_drop elasticity checkpoint nebula "
         "datastates_ckpt datastates weight_quantization dataloader_drop_last sparse_attention "
         "graph_harvesting quantize_training vocabulary_size use_node_local_storage load_universal_checkpoint "
         "gpu_partition checkpoint_engine";
});
inline constexpr auto kZero = word_list([] {
  return "stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce "
         "allgather_partitions allgather_bucket_size overlap_comm compute_grad_norm load_from_fp32_weights "
         "elastic_checkpoint offload_param offload_optimizer zenflow sub_group_size cpu_offload_param "
         "cpu_offload_use_pin_memory cpu_offload stage3_prefetch_bucket_size prefetch_bucket_size "
         "stage3_param_persistence_threshold param_persistence_threshold stage3_model_persistence_threshold "
         "model_persistence_threshold stage3_max_live_parameters max_live_parameters stage3_max_reuse_distance "
         "max_reuse_distance stage3_gather_16bit_weights_on_model_save "
         "stage3_gather_fp16_weights_on_model_save gather_16bit_weights_on_model_save "
         "stage3_module_granularity_threshold module_granularity_threshold "
         "stage3_use_all_reduce_for_fetch_params use_all_reduce_for_fetch_params stage3_allgather_sequential "
         "ignore_unused_parameters legacy_stage1 round_robin_gradients parameter_alignment "
         "zero_hpz_partition_size zero_quantized_weights zero_quantized_nontrainable_weights "
         "zero_quantized_gradients mics_shard_size mics_hierarchical_params_gather memory_efficient_linear "
         "pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings enable_sanity_checks "
         "save_muon_momentum_buffer_in_memory leaf_module";
});
inline constexpr std::string_view kCheckpointing[] = {"partition_activations",
                                                      "contiguous_memory_optimization",
                                                      "cpu_checkpointing",
                                                      "number_checkpoints",
                                                      "profile",
                                                      "synchronize_checkpoint_boundary"};

/// Of `bf16` (runtime/precision_config.py).
inline constexpr std::string_view kBf16[] = {"enabled", "immediate_grad_update", "check_grad_overflow",
                                             "bf16_master_weights_and_grads", "bf16_optimizer_states"};

/// Of `fp16`.
inline constexpr auto kFp16 = word_list([] {
  return "enabled auto_cast loss_scale initial_scale_power loss_scale_window hysteresis consecutive_hysteresis "
         "min_loss_scale fp16_master_weights_and_grads";
});

/// Of `zero_optimization.offload_param` (runtime/zero/offload_config.py).
inline constexpr std::string_view kOffloadParam[] = {"device",      "nvme_path",  "buffer_count",
                                                     "buffer_size", "max_in_cpu", "pin_memory"};

/// Of `zero_optimization.offload_optimizer`.
inline constexpr std::string_view kOffloadOptimizer[] = {
    "device",   "nvme_path", "buffer_count", "pin_memory",    "pipeline_read",     "pipeline_write",
    "pipeline", "fast_init", "ratio",        "super_offload", "cpuadam_cores_perc"};

/// Of `tensor_parallel` (runtime/tensor_parallel/config.py).
inline constexpr auto kTensorParallel = word_list([] {
  return "dtype autotp_size tp_overlap_comm vocab_parallel_lm_head vocab_parallel_ce_backend tp "
         "tensor_parallel injection_policy_tuple injection_policy partition_config preset_model "
         "keep_module_on_host kernel_inject replace_with_kernel_inject";
});

/// Of `zero_optimization.leaf_module` (runtime/zero/leaf_module_config.py).
inline constexpr std::string_view kLeafModule[] = {"classes", "names", "name_suffixes"};

/// A section of the file: its keys, and whether DeepSpeed stops at one that is not among them.
struct Section {
  std::string_view path;
  std::span<const std::string_view> names;
  bool strict;
};
inline constexpr Section kSections[] = {
    {"zero_optimization", kZero, true},
    {"zero_optimization.offload_param", kOffloadParam, true},
    {"zero_optimization.offload_optimizer", kOffloadOptimizer, true},
    {"zero_optimization.leaf_module", kLeafModule, true},
    {"bf16", kBf16, true},
    {"bfloat16", kBf16, true},
    {"fp16", kFp16, true},
    {"tensor_parallel", kTensorParallel, true},
    {"activation_checkpointing", kCheckpointing, false},
};

}  // namespace plan::deepspeed
