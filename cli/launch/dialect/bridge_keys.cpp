// Keys of Megatron-Bridge beside Megatron-LM's flags (plan-launch(7) 3.2; checked against
// scripts/translate_mlm_to_bridge.py at 067f987df03b). Tested by tests/launch/round_trip_test.cpp.
#include "cli/launch/dialect/dialect.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

constexpr DialectRow kBridge[] = {
    {"model.*",
     "num-layers hidden-size ffn-hidden-size num-attention-heads num-query-groups kv-channels add-qkv-bias "
     "qk-layernorm multi-latent-attention q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim "
     "position-embedding-type rotary-base rotary-percent normalization"},
    {"model.*", "swiglu", {}, "false"},
    {"model.*",
     "disable-bias-linear untie-embeddings-and-output-weights attention-dropout hidden-dropout mtp-num-layers "
     "mtp-use-repeated-layer window-size window-attn-skip-freq softmax-type mamba-num-heads mamba-head-dim "
     "mamba-num-groups mamba-state-dim moe-latent-size attention-output-gate experimental-attention-variant "
     "linear-attention-freq linear-num-key-heads linear-num-value-heads linear-key-head-dim linear-value-head-dim "
     "linear-conv-kernel-dim dsa-indexer-n-heads dsa-indexer-head-dim dsa-indexer-topk dsa-indexer-topk-freq "
     "dsa-indexer-skip-topk-offset dsa-kernel-backend num-experts moe-router-topk moe-ffn-hidden-size "
     "moe-layer-freq moe-shared-expert-intermediate-size moe-shared-expert-gate moe-router-score-function "
     "moe-router-enable-expert-bias use-rope-scaling rope-scaling-factor moe-router-num-groups "
     "moe-router-group-topk moe-router-topk-scaling-factor moe-router-pre-softmax moe-router-load-balancing-type "
     "moe-aux-loss-coeff tensor-model-parallel-size"},
    {"model.*", "sequence-parallel", {}, "false"},
    {"model.*", "pipeline-model-parallel-size"},
    {"model.*", "num-virtual-stages-per-pipeline-rank microbatch-group-size-per-virtual-pipeline-stage", {}, "null"},
    {"model.*", "context-parallel-size expert-model-parallel-size expert-tensor-parallel-size"},
    {"model.*",
     "pipeline-model-parallel-layout decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers",
     {},
     "null"},
    {"model.*", "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split", {}, "false"},
    {"model.*", "cp-comm-type hierarchical-context-parallel-sizes"},
    {"model.*", "recompute-granularity recompute-method recompute-num-layers", {}, "null"},
    {"model.*",
     "recompute-modules cross-entropy-loss-fusion cross-entropy-fusion-impl moe-grouped-gemm "
     "moe-token-dispatcher-type moe-flex-dispatcher-backend moe-router-dtype "
     "moe-router-fusion"},
    {"model.*", "moe-shared-expert-overlap", {}, "false"},
    {"model.*", "deterministic-mode no-gradient-accumulation-fusion attention-backend"},
    {"dataset.*", "seq-length"},
    {"model.*", "seq-length vocab-size"},
    {"train.*", "micro-batch-size global-batch-size train-iters manual-gc manual-gc-interval"},
    {"validation.*", "eval-interval eval-iters"},
    {"checkpoint.*", "save load save-interval async-save"},
    {"train.*", "exit-signal-handler exit-duration-in-mins"},
    {"checkpoint.*", "ckpt-format"},
    {"scheduler.*", "lr-decay-style lr-warmup-iters"},
    {"logger.*", "log-interval log-throughput"},
    {"dist.*", "use-tp-pp-dp-mapping distributed-timeout-minutes"},
    {"dataset.*", "data-path"},
    {"tokenizer.*", "tokenizer-model tokenizer-type"},
    {"ddp.*", "use-distributed-optimizer"},
    {"optimizer.*", "use-distributed-optimizer"},  // either turns on both
    {"ddp.*", "num-distributed-optimizer-instances use-megatron-fsdp data-parallel-sharding-strategy"},
    {"ddp.*", "overlap-grad-reduce overlap-param-gather", {}, "false"},
    {"comm_overlap.*", "no-overlap-p2p-communication tp-comm-overlap overlap-moe-expert-parallel-comm"},
    {"optimizer.*", "optimizer"},
    {"optimizer.*", "use-precision-aware-optimizer", {}, "false"},
    {"optimizer.*", "main-grads-dtype main-params-dtype exp-avg-dtype exp-avg-sq-dtype", {}, "torch.float32"},
    {"model.*", "fine-grained-activation-offloading offload-modules"},
    {"optimizer.*",
     "optimizer-cpu-offload optimizer-offload-fraction overlap-cpu-optimizer-d2h-h2d lr min-lr weight-decay "
     "clip-grad"},
    {"",
     "spec fp8-format fp8-recipe first-last-layers-bf16 num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 "
     "fp4-format fp4-recipe bf16 fp16 squared-relu group-query-attention mock-data split max-position-embeddings "
     "fp8-param-gather"},
};

constexpr std::string_view kBridgeNumbers[] = {"peft.dim"};
constexpr auto kBridgeDerived = word_list([] {
  return "dataset.sequence_length peft peft.dim peft._target_ mixed_precision.first_last_layers_bf16 "
         "mixed_precision.num_layers_at_start_in_bf16 mixed_precision.num_layers_at_end_in_bf16 "
         "mixed_precision._target_ mixed_precision.bf16 mixed_precision.fp16 mixed_precision.fp32 "
         "mixed_precision.fp8 mixed_precision.fp8_recipe mixed_precision.fp8_param "
         "mixed_precision.fp8_param_gather mixed_precision.fp4 mixed_precision.fp4_recipe "
         "mixed_precision.grad_reduce_in_fp32";
});
constexpr CountedAs kBridgeCounted[] = {
    {"mixed_precision.params_dtype", "torch.bfloat16 bfloat16 bf16", "weights are counted in the products' format"},
    {"mixed_precision.fp4_param", "false none", "weights in fp4 are counted as kept in the products' format"},
    {"mixed_precision.fp4_param_gather", "false none",
     "weights in fp4 are counted as gathered in the products' format"},
};

}  // namespace

const Dialect& bridge_dialect() {
  static const Dialect dialect{"megatron-bridge",
                               keys_of_rows(kBridge),
                               "",
                               "",
                               "",
                               "mixed_precision",
                               kBridgeDerived,
                               derive_bridge,
                               kBridgeCounted,
                               true,
                               kBridgeNumbers};
  return dialect;
}

}  // namespace plan
