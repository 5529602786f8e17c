// LLaMA-Factory over mcore_adapter (USE_MCA=1, its releases up to 0.9.5): read, not written. Keys and defaults are
// those of mcore_adapter's training_args.py and models/model_config.py (github.com/alibaba/ROLL). Tested by
// tests/launch/mca_test.cpp.
#include <algorithm>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/dialect/extra_config.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

constexpr DialectRow kKeys[] = {
    {"*",
     "tensor-model-parallel-size sequence-parallel pipeline-model-parallel-size "
     "num-virtual-stages-per-pipeline-rank context-parallel-size expert-model-parallel-size "
     "expert-tensor-parallel-size account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split "
     "pipeline-model-parallel-layout decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers "
     "recompute-granularity recompute-method recompute-num-layers recompute-modules cp-comm-type"},
    {"*", "use-distributed-optimizer", KeyKind::Switch},
    {"*",
     "overlap-grad-reduce overlap-param-gather optimizer-cpu-offload optimizer-offload-fraction "
     "moe-token-dispatcher-type moe-grouped-gemm moe-shared-expert-overlap moe-expert-capacity-factor "
     "moe-pad-expert-input-to-capacity moe-router-dtype moe-router-fusion moe-aux-loss-coeff cross-entropy-loss-fusion "
     "transformer-impl fp8-format fp8-recipe first-last-layers-bf16 num-layers-at-start-in-bf16 "
     "num-layers-at-end-in-bf16 cuda-graph-impl cuda-graph-scope"},
    {"per_device_train_batch_size", "micro-batch-size"},
    {"cutoff_len", "seq-length"},
    {"*", "optimizer"},
    {"learning_rate", "lr"},
    {"max_steps", "train-iters"},
    {"*", "weight-decay"},
    {"max_grad_norm", "clip-grad"},
};

constexpr std::string_view kMcaNumbers[] = {"gradient_accumulation_steps", "lora_rank"};
constexpr std::string_view kDerived[] = {
    "gradient_accumulation_steps", "finetuning_type", "lora_rank", "quantization_bit", "stage", "moe_layer_recompute"};

/// Keys that no other of LLaMA-Factory's backends has.
constexpr auto kOwn = word_list([] {
  return "additional_configs bias_activation_fusion apply_rope_fusion moe_layer_recompute "
         "expert_tensor_parallel_size pipeline_model_parallel_layout recompute_modules overlap_p2p_comm "
         "variable_seq_lengths moe_shared_expert_overlap calculate_per_token_loss delay_grad_reduce "
         "ddp_average_in_collective sequence_packing transformer_impl use_mca";
});
constexpr std::string_view kAdditional = "additional_configs";

}  // namespace

const Dialect& mca_dialect() {
  static const Dialect dialect{
      "llama-factory", keys_of_rows(kKeys), "model_name_or_path", "", "", "mixed_precision", kDerived, derive_mca, {},
      false,           kMcaNumbers};
  return dialect;
}

bool is_mca(const LaunchSource& source) {
  if (mentions(source, "USE_MCA")) return true;
  const Result<StatedKeys> keys = keys_of_yaml(source);
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

Result<StatedKeys> keys_of_llama_factory(const LaunchSource& source, bool mca) {
  Result<StatedKeys> keys = keys_of_yaml(source);
  if (!keys) return keys;
  if (mca) lay_over(*keys, kAdditional, [](const std::string&) { return true; });
  if (!mca) unfold_json(*keys, "extra_config");
  if (mentions(source, "USE_MEGATRON_BRIDGE")) (*keys)["use_megatron_bridge"] = {{"true"}, source.path};
  return keys;
}

}  // namespace plan
