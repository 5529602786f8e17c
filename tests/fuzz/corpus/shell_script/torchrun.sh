#!/bin/bash
# llama3-8b on 16 GPUs (h100-sxm)
# tp 1   cp 1   pp 2 (vp 8)   dp 8   micro_batch 1 x 128
# Written by plan for Megatron-LM; needs Megatron core 0.13 or newer.
# Not the plan's: learning rate, iterations, data and tokenizer. Look at them before a long run.
# On every node: NODE_RANK=0..1 MASTER_ADDR=<node 0> ./plan-llama3-8b.sh
set -euo pipefail

export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
export TORCH_NCCL_AVOID_RECORD_STREAMS=1
export NVTE_FWD_LAYERNORM_SM_MARGIN=16
export NVTE_BWD_LAYERNORM_SM_MARGIN=16
MEGATRON_PATH="${MEGATRON_PATH:?set MEGATRON_PATH to a Megatron-LM checkout}"
NODE_RANK=${NODE_RANK:-0}
MASTER_ADDR=${MASTER_ADDR:-127.0.0.1}
MASTER_PORT=${MASTER_PORT:-29500}

MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention
    --num-query-groups 8 --kv-channels 128 --seq-length 8192 --max-position-embeddings 8192
    --position-embedding-type rope --rotary-base 500000 --normalization RMSNorm --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 2
    --pipeline-model-parallel-layout 'Et*2|(t*2|)*12t*2|t*3|tL' --context-parallel-size 1
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
)
PRECISION_ARGS=(
    --bf16
)
OPTIMIZER_ARGS=(
    --optimizer adam --lr 1e-4 --min-lr 1e-5 --lr-decay-style cosine --lr-warmup-iters 100 --weight-decay 0.1
    --clip-grad 1.0
)
TRAIN_ARGS=(
    --micro-batch-size 1 --global-batch-size 1024 --train-iters 1000 --eval-interval 1000 --eval-iters 10
    --log-interval 1 --log-throughput --distributed-timeout-minutes 60 --manual-gc --manual-gc-interval 100
    --cross-entropy-loss-fusion --cross-entropy-fusion-impl native
)
DATA_ARGS=(
    --mock-data --tokenizer-type NullTokenizer --vocab-size 128256
)

exec torchrun --nnodes 2 --nproc-per-node 8 --node-rank "$NODE_RANK" \
    --master-addr "$MASTER_ADDR" --master-port "$MASTER_PORT" \
    "$MEGATRON_PATH/pretrain_gpt.py" \
    "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${PRECISION_ARGS[@]}" "${OPTIMIZER_ARGS[@]}" "${TRAIN_ARGS[@]}" "${DATA_ARGS[@]}"
