#pragma once

#include <string_view>

namespace plan {

/// Flags of the model's shape and of the run's settings: a tool that names its model takes the shape from there, and it
/// has settings of its own for the run.
inline constexpr std::string_view kElsewhere =
    "bf16 vocab-size num-layers hidden-size ffn-hidden-size num-attention-heads num-query-groups kv-channels "
    "add-qkv-bias qk-layernorm multi-latent-attention q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim "
    "v-head-dim dsa-indexer-n-heads dsa-indexer-head-dim dsa-indexer-topk dsa-indexer-topk-freq "
    "dsa-indexer-skip-topk-offset dsa-kernel-backend position-embedding-type rotary-base rotary-percent spec "
    "mamba-num-heads mamba-head-dim mamba-num-groups mamba-state-dim moe-latent-size attention-output-gate "
    "experimental-attention-variant linear-attention-freq linear-num-key-heads linear-num-value-heads "
    "linear-key-head-dim linear-value-head-dim linear-conv-kernel-dim normalization swiglu disable-bias-linear "
    "untie-embeddings-and-output-weights attention-dropout hidden-dropout mtp-num-layers mtp-use-repeated-layer "
    "window-size window-attn-skip-freq softmax-type num-experts moe-router-topk moe-ffn-hidden-size moe-layer-freq "
    "moe-shared-expert-intermediate-size moe-shared-expert-gate moe-router-score-function "
    "moe-router-enable-expert-bias use-rope-scaling rope-scaling-factor moe-router-num-groups moe-router-group-topk "
    "moe-router-topk-scaling-factor moe-router-pre-softmax moe-router-load-balancing-type moe-aux-loss-coeff "
    "squared-relu group-query-attention max-position-embeddings log-interval log-throughput "
    "distributed-timeout-minutes manual-gc manual-gc-interval mock-data split tokenizer-type tokenizer-model "
    "eval-iters lr-decay-style lr-warmup-iters load ckpt-format";

}  // namespace plan
