#!/bin/bash
# llama3-8b on 16 GPUs (h100-sxm)
# tp 1   cp 1   pp 2 (vp 8)   dp 8   micro_batch 1 x 128
# Written by plan for verl 0.7 (Megatron actor); run it on the head of a Ray cluster.
# Add your rewards, rollout and data: KEY=VALUE behind the script's name.
set -euo pipefail

export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
export TORCH_NCCL_AVOID_RECORD_STREAMS=1
export NVTE_FWD_LAYERNORM_SM_MARGIN=16
export NVTE_BWD_LAYERNORM_SM_MARGIN=16
python3 -m verl.trainer.main_ppo --config-path=config --config-name=ppo_megatron_trainer.yaml \
    actor_rollout_ref.model.path=meta-llama/Meta-Llama-3-8B \
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=1 \
    actor_rollout_ref.actor.megatron.sequence_parallel=false \
    actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \
    actor_rollout_ref.actor.megatron.context_parallel_size=1 \
    'actor_rollout_ref.actor.megatron.override_transformer_config.pipeline_model_parallel_layout="Et*2|(t*2|)*12t*2|t*3|tL"' \
    actor_rollout_ref.actor.megatron.override_transformer_config.cross_entropy_loss_fusion=true \
    actor_rollout_ref.actor.megatron.override_transformer_config.cross_entropy_fusion_impl=native \
    actor_rollout_ref.actor.megatron.use_distributed_optimizer=true \
    actor_rollout_ref.actor.megatron.override_ddp_config.overlap_grad_reduce=true \
    actor_rollout_ref.actor.megatron.override_ddp_config.overlap_param_gather=true \
    data.train_batch_size=1024 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 \
    data.max_length=8192 \
    actor_rollout_ref.actor.megatron.dtype=bfloat16 \
    trainer.nnodes=2 \
    trainer.n_gpus_per_node=8 \
    "$@"
