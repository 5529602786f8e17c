// Rows of the dialects' tables, written out: the key and the kind of each flag follow from what Megatron core calls it
// and from how many values its parser takes. Tested by tests/launch/dialect_words_test.cpp.
#include <algorithm>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/job/keys.hpp"
#include "cli/launch/megatron/flags.hpp"

namespace plan {
namespace {

using enum KeyKind;

/// What Megatron core's configurations call a flag and take for it, where that is not the flag with underscores and as
/// many values as the parser reads behind it (megatron/core/transformer/transformer_config.py,
/// model_parallel_config.py, optimizer/optimizer_config.py, distributed/distributed_data_parallel_config.py).
struct CoreName {
  std::string_view flag, name;
  KeyKind kind;
};
constexpr CoreName kCoreNames[] = {
    {"num-virtual-stages-per-pipeline-rank", "virtual_pipeline_model_parallel_size", Value},
    {"microbatch-group-size-per-virtual-pipeline-stage", "microbatch_group_size_per_vp_stage", Value},
    {"decoder-first-pipeline-num-layers", "num_layers_in_first_pipeline_stage", Value},
    {"decoder-last-pipeline-num-layers", "num_layers_in_last_pipeline_stage", Value},
    {"num-experts", "num_moe_experts", Value},
    {"swiglu", "gated_linear_unit", Switch},
    {"disable-bias-linear", "add_bias_linear", Off},
    {"untie-embeddings-and-output-weights", "share_embeddings_and_output_weights", Off},
    {"use-rope-scaling", "rope_scaling", Switch},
    {"fp8-format", "fp8", Value},
    {"fp4-format", "fp4", Value},
    {"no-gradient-accumulation-fusion", "gradient_accumulation_fusion", Off},
    {"no-overlap-p2p-communication", "overlap_p2p_comm", Off},
    {"grad-reduce-in-bf16", "grad_reduce_in_fp32", Off},
    {"use-distributed-optimizer", "use_distributed_optimizer", On},
    {"moe-layer-freq", "moe_layer_freq", Layers},
    {"window-attn-skip-freq", "window_attn_skip_freq", Layers},
    {"linear-attention-freq", "linear_attention_freq", Layers},
    {"main-grads-dtype", "main_grads_dtype", Dtype},
    {"main-params-dtype", "main_params_dtype", Dtype},
    {"exp-avg-dtype", "exp_avg_dtype", Dtype},
    {"exp-avg-sq-dtype", "exp_avg_sq_dtype", Dtype},
    // The parser takes several of these, one a layer or a source; a configuration takes one word.
    {"cp-comm-type", "cp_comm_type", Value},
    {"moe-router-load-balancing-type", "moe_router_load_balancing_type", Value},
    {"moe-aux-loss-coeff", "moe_aux_loss_coeff", Value},
    {"data-path", "data_path", Value},
};

KeyKind kind_by_values(std::string_view name) {
  const MegatronFlag* flag = find_megatron_flag(name);
  if (flag == nullptr || flag->values == 1) return Value;
  return flag->values == 0 ? Switch : List;
}

DialectKey key_of(const DialectRow& row, std::string_view flag) {
  const auto* core =
      std::find_if(std::begin(kCoreNames), std::end(kCoreNames), [&](const CoreName& one) { return one.flag == flag; });
  const bool own = core == std::end(kCoreNames);
  DialectKey out{flag, std::string(row.key), row.kind.value_or(own ? kind_by_values(flag) : core->kind), row.otherwise};
  if (!out.key.ends_with('*')) return out;
  out.key.pop_back();
  out.key += own ? with_underscores(flag) : std::string(core->name);
  return out;
}

}  // namespace

std::vector<DialectKey> keys_of_rows(std::span<const DialectRow> rows) {
  std::vector<DialectKey> out;
  for (const DialectRow& row : rows)
    for (std::string_view rest = row.flags; !rest.empty();) {
      const std::size_t blank = std::min(rest.find(' '), rest.size());
      out.push_back(key_of(row, rest.substr(0, blank)));
      rest.remove_prefix(std::min(blank + 1, rest.size()));
    }
  return out;
}

}  // namespace plan
