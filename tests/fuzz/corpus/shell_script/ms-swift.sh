#!/bin/bash
# llama3-8b on 16 GPUs (h100-sxm)
# tp 1   cp 1   pp 2 (vp 8)   dp 8   micro_batch 1 x 128
# Written by plan for ms-swift 4; run it on every node with NODE_RANK and MASTER_ADDR set.
# Name your data behind the script's name: --dataset PATH.
set -euo pipefail

export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
export TORCH_NCCL_AVOID_RECORD_STREAMS=1
export NVTE_FWD_LAYERNORM_SM_MARGIN=16
export NVTE_BWD_LAYERNORM_SM_MARGIN=16
export NNODES=2 NPROC_PER_NODE=8
export NODE_RANK="${NODE_RANK:-0}" MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}" MASTER_PORT="${MASTER_PORT:-29500}"
megatron pt \
    --model meta-llama/Meta-Llama-3-8B \
    --tensor_model_parallel_size 1 \
    --pipeline_model_parallel_size 2 \
    --context_parallel_size 1 \
    --pipeline_model_parallel_layout 'Et*2|(t*2|)*12t*2|t*3|tL' \
    --cross_entropy_loss_fusion true \
    --cross_entropy_fusion_impl native \
    --use_distributed_optimizer true \
    --overlap_grad_reduce true \
    --overlap_param_gather true \
    --optimizer adam \
    --lr 1e-4 \
    --min_lr 1e-5 \
    --weight_decay 0.1 \
    --clip_grad 1.0 \
    --micro_batch_size 1 \
    --global_batch_size 1024 \
    --max_length 8192 \
    --train_iters 1000 \
    --eval_interval 1000 \
    --torch_dtype bfloat16 \
    "$@"
