// The keys of config.json that shape layers in some family. One that a family's
// reader does not ask for is refused by name: a checkpoint with layers of its
// own is not taken for the family that it started from. Sources: configuration
// classes of transformers 5.23 and of checkpoints that bring their own. Tested
// by tests/presets/checkpoints_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "formulas/words.hpp"
#include "presets/json_config.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr auto kShapeKeys = word_list([] {
  return "add_cross_attention altup_num_inputs attention_bias attention_k_eq_v attention_out_bias "
         "attention_value_scale "
         "attn_layer_indices attn_layer_offset attn_layer_period attn_output_gate attn_type_list block_configs "
         "block_types cla_share_factor compress_ratios conv_L_cache cross_attention_hidden_size cross_attention_layers "
         "decoder_sparse_step "
         "dense_intermediate_size enable_moe_block expert_layer_period experts_per_token ffn_dim "
         "ffn_hidden_size first_k_dense_replace full_attn_idxs global_head_dim hc_mult "
         "hidden_size_per_layer_input hybrid_layer_ids hybrid_layer_pattern hybrid_override_pattern "
         "index_n_heads interleave_moe_layer_step is_encoder_decoder kv_lora_rank laurel_rank layer_types "
         "layers_block_type "
         "linear_attn_config linear_num_value_heads lm_head_bias mamba_d_ssm mamba_d_state mamba_n_heads "
         "mamba_num_heads mamba_proj_bias mlp_bias mlp_layer_types mlp_only_layers moe_intermediate_size "
         "moe_latent_size moe_layer_freq moe_layers moe_layers_enum moe_num_experts moe_num_shared_experts "
         "moe_shared_expert_intermediate_size mtp_num_hidden_layers multi_query_group_num n_experts n_inner "
         "n_kv_head n_kv_heads n_routed_experts n_shared_experts num_experts num_global_key_value_heads "
         "num_kv_shared_layers num_local_experts num_mtp_layers num_mtp_modules num_nextn_predict_layers "
         "num_query_groups num_shared_expert num_shared_experts o_lora_rank pruned_heads q_lora_rank qk_layernorm "
         "qkv_bias "
         "residual_moe share_expert_dim shared_expert_intermediate_size shared_intermediate_size "
         "sparse_attention_config sparse_config ssm_state_size swa_head_dim swa_num_attention_heads use_bias "
         "use_cla use_double_wide_mlp use_parallel_residual use_qk_norm use_qkv_bias use_sliding_window "
         "v_head_dim vocab_size_per_layer_input zero_expert_num";
});

/// None, no, nothing, or full attention everywhere: what every family does
/// without the key.
bool says_nothing(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0;
  if (value.is_array())
    return std::all_of(value.begin(), value.end(), [](const nlohmann::json& item) {
      return item == "full_attention" || item == "attention" || item == 0;
    });
  return value.empty();
}

/// Letters alone: `numHeads`, `num-heads` and `num_heads` are one word.
std::string letters(std::string_view key) {
  std::string out;
  for (const char c : key)
    if (c != '_' && c != '-') out += lower_case(c);
  return out;
}

/// Whether somebody who meant `key` could have typed `word`. Two letters amiss are a slip in long words alone: families
/// have short keys that are no further apart.
bool slipped(std::string_view word, std::string_view key) {
  constexpr std::size_t kLong = 12;
  const std::size_t most = std::min(word.size(), key.size()) >= kLong ? 2 : 1;
  return letters(word) == letters(key) || edit_distance(word, key, most + 1) <= most;
}

/// Whether `word` is what somebody added who meant to change `key`, and did not see it: another number under a long
/// name that differs in a letter.
bool doubles(const JsonConfig& c, std::string_view word, std::string_view key) {
  constexpr std::size_t kLong = 12;
  return word.size() >= kLong && c.raw(word)->is_number() && c.raw(key)->is_number() && *c.raw(word) != *c.raw(key) &&
         edit_distance(word, key, 2) <= 1;
}

}  // namespace

void judge_spelling(JsonConfig& c) {
  for (const std::string& word : c.unasked())
    for (const std::string& key : c.answered())
      if (doubles(c, word, key))
        c.error(word, "unknown_key",
                fmt::format("`{}` is no key of this family, and stands beside `{}`", yaml::printable(word), key),
                {"leave one of them out, and write the number that counts in the other"});
  const std::vector<std::string> absent = c.absent();
  for (const std::string& word : c.unasked()) {
    const auto meant =
        std::find_if(absent.begin(), absent.end(), [&](const std::string& key) { return slipped(word, key); });
    if (meant == absent.end()) continue;
    c.error(word, "unknown_key",
            fmt::format("`{}` is no key of this family, which has `{}`", yaml::printable(word), *meant),
            {fmt::format("write `{}`, or leave the key out", *meant)});
  }
  const std::vector<JsonConfig> parts = c.nested();
  for (JsonConfig part : parts) {
    judge_spelling(part);
    c.take(part);
  }
}

void judge_shapes(JsonConfig& c) {
  for (const std::string_view key : kShapeKeys) {
    const nlohmann::json* value = c.raw(key);
    if (value == nullptr || c.asked(key) || says_nothing(*value)) continue;
    c.error(key, "unread_key", fmt::format("`{}` shapes layers, and this family is not known to have it", key),
            {"leave it out if the checkpoint's layers do not depend on it, or "
             "write the model as a preset: "
             "`man 5 plan-preset`"});
  }
}

}  // namespace plan
