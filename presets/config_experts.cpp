// Families with experts behind plain attention: the keys of config.json and the
// defaults of the family (plan-formulas(7) A2).
#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "presets/json_config.hpp"

namespace plan {

MoeShape read_experts(JsonConfig& c, JsonConfig::Keys width) {
  MoeShape moe;
  moe.experts = c.size({"n_routed_experts", "num_experts", "num_local_experts"}, 1, 1e5);
  moe.top_k = c.size({"num_experts_per_tok", "moe_topk", "experts_per_token"}, 1, 1e5);
  moe.expert_width = c.size(width, 1, 1e7);
  return moe;
}

Layer dense_of(Layer layer, std::int64_t width) {
  layer.ffn = Ffn::Dense;
  layer.dense.width = width;
  layer.moe = {};
  return layer;
}
Layer moe_of(Layer layer, const MoeShape& moe) {
  layer.ffn = Ffn::Moe;
  layer.moe = moe;
  layer.dense = {};
  return layer;
}

/// Layers 0 .. first-1 dense, then a mixture wherever the index is a multiple
/// of `moe_layer_freq`.
bool is_mixture(JsonConfig& c, std::int64_t i, std::int64_t dense) {
  const std::int64_t first = c.size_or({"first_k_dense_replace"}, dense, 0, 1e4);
  const std::int64_t every = c.size_or({"moe_layer_freq"}, 1, 1, 1e4);
  const std::vector<std::string> types = c.layers("mlp_layer_types", read_depth(c), {"dense", "sparse"});
  const bool counted = i >= first && i % every == 0;
  if (static_cast<std::size_t>(i) >= types.size()) return counted;
  const bool listed = types[static_cast<std::size_t>(i)] != "dense";
  if (listed != counted && (c.has("first_k_dense_replace") || c.has("moe_layer_freq")))
    c.error("mlp_layer_types", "conflict",
            "`mlp_layer_types` makes mixtures of other layers than `first_k_dense_replace` and `moe_layer_freq`");
  return listed;
}

MoeShape read_deepseek_experts(JsonConfig& c) {
  MoeShape moe = read_experts(c, {"moe_intermediate_size"});
  moe.shared_width = c.size_or({"n_shared_experts"}, 0, 0, 1e4) * moe.expert_width;
  return moe;
}

void add_mtp(JsonConfig& c, ModelBuilder& out, const Layer& layer, bool own_embedding) {
  const std::int64_t depth = c.size_or({"num_nextn_predict_layers"}, 0, 0, 64);
  if (depth == 0) return;
  out.model.mtp = {static_cast<int>(depth), 1, {out.kind(layer)}, own_embedding};
}

namespace {

/// Mixtral's experts, of which others have other defaults: `intermediate_size` is the width of one.
MoeShape mixtral_experts(JsonConfig& c, std::string_view key, std::int64_t experts, std::int64_t top_k) {
  MoeShape moe;
  moe.experts = c.size_or({key}, experts, 1, 1e5);
  moe.top_k = c.size_or({"num_experts_per_tok"}, top_k, 1, 1e5);
  moe.expert_width = c.size({"intermediate_size"}, 1, 1e7);
  return moe;
}

/// Mixtral: every layer a mixture.
void build_mixtral(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  layer.attention.window = c.size_or({"sliding_window"}, 0);
  const MoeShape moe = mixtral_experts(c, "num_local_experts", 8, 2);
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(moe_of(layer, moe));
}

/// Whether a list of numbers, if there is one, has that number alone.
bool all_equal(JsonConfig& c, std::string_view key, std::int64_t number) {
  const std::vector<std::int64_t> all = c.sizes_of_layers(key, read_depth(c));
  return std::all_of(all.begin(), all.end(), [number](std::int64_t one) { return one == number; });
}

void build_minimax_m2(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false, 128);
  if (c.flag_or("use_qk_norm", true)) layer.attention.qk_norm = QkNorm::Full;
  MoeShape moe = read_experts(c, {"intermediate_size"});
  moe.shared_width = c.size_or({"shared_intermediate_size"}, 0, 0, 1e7);
  moe.score_bias = c.flag_or("use_routing_bias", true);
  c.size_or({"num_mtp_modules"}, 0, 0,
            64);  // the published checkpoints leave the modules out
  if (!all_equal(c, "attn_type_list", 1))
    c.error("attn_type_list", "unsupported", "`attn_type_list` has lightning attention, which is not modelled");
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(moe_of(layer, moe));
}

void build_gpt_oss(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false, 64);
  read_attention_bias(c, layer, true);
  layer.attention.sinks = true;
  MoeShape moe = read_experts(c, {"intermediate_size"});
  moe.expert_bias = moe.router_bias = true;
  const std::int64_t depth = read_depth(c), window = c.size_or({"sliding_window"}, 128);
  const std::vector<bool> sliding = sliding_layers(c, depth, 2);
  for (std::int64_t i = 0; i < depth; ++i) {
    layer.attention.window = sliding[static_cast<std::size_t>(i)] ? window : 0;
    out.add(moe_of(layer, moe));
  }
}

void build_dbrx(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  read_common(c, m, false);
  m.norm = Norm::Layer;
  m.norm_bias = false;
  JsonConfig attention = c.object("attn_config"), ffn = c.object("ffn_config", true);
  Layer layer;
  layer.attention = read_heads(c, m.hidden);
  layer.attention.kv_heads = attention.size_or({"kv_n_heads"}, layer.attention.heads, 1, 1e5);
  MoeShape moe;
  moe.experts = ffn.size({"moe_num_experts"}, 1, 1e5);
  moe.top_k = ffn.size({"moe_top_k"}, 1, 1e5);
  moe.expert_width = ffn.size({"ffn_hidden_size"}, 1, 1e7);
  read_dropout(attention, m);
  c.take(attention);
  c.take(ffn);
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(moe_of(layer, moe));
}

/// Qwen's rule: a mixture at multiples of `decoder_sparse_step`, except in
/// `mlp_only_layers`.
struct QwenMoe {
  bool qkv_bias = false;
  QkNorm qk_norm = QkNorm::PerHead;
  bool shared = false;
};

void build_qwen_moe(JsonConfig& c, ModelBuilder& out, const QwenMoe& family) {
  Layer layer = begin_layer(c, out.model, false);
  const bool bias = c.flag_or("attention_bias", false);
  layer.attention.qkv_bias = c.flag_or("qkv_bias", family.qkv_bias || bias);
  layer.attention.out_bias = bias;
  layer.attention.qk_norm = family.qk_norm;
  if (family.qk_norm == QkNorm::PerHead && !c.flag_or("use_qk_norm", true))
    c.error("use_qk_norm", "unsupported", "this family without norms of queries and keys is not modelled");
  MoeShape moe = read_experts(c, {"moe_intermediate_size"});
  if (family.shared) {
    moe.shared_width = c.size_or({"shared_expert_intermediate_size"}, 0, 0, 1e7);
    moe.shared_gate = moe.shared_width > 0;
  }
  const std::int64_t depth = read_depth(c), step = c.size_or({"decoder_sparse_step"}, 1, 1, 1e4);
  const std::int64_t width = c.size_or({"intermediate_size"}, 1, 1, 1e7);
  const std::vector<std::int64_t> plain = c.layer_indexes("mlp_only_layers", depth);
  for (std::int64_t i = 0; i < depth; ++i) {
    const bool mixture = (i + 1) % step == 0 && std::find(plain.begin(), plain.end(), i) == plain.end();
    out.add(mixture ? moe_of(layer, moe) : dense_of(layer, width));
  }
}

void build_qwen2_moe(JsonConfig& c, ModelBuilder& out) {
  build_qwen_moe(c, out, {.qkv_bias = true, .qk_norm = QkNorm::None, .shared = true});
}
void build_qwen3_moe(JsonConfig& c, ModelBuilder& out) { build_qwen_moe(c, out, {}); }

/// DeepSeek-MoE (v1) and GLM-4.5: plain attention in DeepSeek's order of
/// layers.
void build_deepseek(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  const MoeShape moe = read_deepseek_experts(c);
  const std::int64_t depth = read_depth(c), width = c.size({"intermediate_size"}, 1, 1e7);
  for (std::int64_t i = 0; i < depth; ++i) out.add(is_mixture(c, i) ? moe_of(layer, moe) : dense_of(layer, width));
}

void build_glm4_moe(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  layer.attention.qkv_bias = c.flag_or("attention_bias", false);
  if (c.flag_or("use_qk_norm", false)) layer.attention.qk_norm = QkNorm::PerHead;
  MoeShape moe = read_deepseek_experts(c);
  moe.score_bias = true;
  const std::int64_t depth = read_depth(c), width = c.size({"intermediate_size"}, 1, 1e7);
  for (std::int64_t i = 0; i < depth; ++i) out.add(is_mixture(c, i, 1) ? moe_of(layer, moe) : dense_of(layer, width));
  add_mtp(c, out, moe_of(layer, moe), false);
}

void build_olmoe(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  read_attention_bias(c, layer);
  layer.attention.qk_norm = QkNorm::Full;
  const MoeShape moe = mixtral_experts(c, "num_experts", 64, 8);
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(moe_of(layer, moe));
}

/// Granite 3: Mixtral's layers; the later ones with a shared expert.
void build_granite_moe(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  read_attention_bias(c, layer);
  MoeShape moe = mixtral_experts(c, "num_local_experts", 8, 2);
  if (c.text_or("model_type", "") == "granitemoeshared")
    moe.shared_width = c.size_or({"shared_intermediate_size"}, 0, 0, 1e7);
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(moe_of(layer, moe));
}

/// Phi-3.5-MoE: LayerNorms, biases in the attention and the head.
void build_phimoe(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  m.norm = Norm::Layer;
  m.head_bias = c.flag_or("lm_head_bias", false);
  Layer layer = begin_layer(c, m, false);
  read_attention_bias(c, layer);
  layer.attention.window = c.size_or({"sliding_window"}, 0);
  const MoeShape moe = mixtral_experts(c, "num_local_experts", 16, 2);
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(moe_of(layer, moe));
}

/// ERNIE 4.5: mixtures between two layers, at multiples of an interval, and
/// shared experts in widths of a routed one.
void build_ernie_moe(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, true);
  MoeShape moe;
  moe.experts = c.size_or({"moe_num_experts"}, 64, 1, 1e5);
  moe.top_k = c.size_or({"moe_k"}, 6, 1, 1e5);
  moe.expert_width = c.size_or({"moe_intermediate_size"}, 1536, 1, 1e7);
  moe.shared_width = c.size_or({"moe_num_shared_experts"}, 2, 0, 1e4) * moe.expert_width;
  moe.score_bias = true;
  if (c.flag_or("use_bias", false))
    c.error("use_bias", "unsupported",
            "`use_bias`: biases in every product of ERNIE's mixtures are not "
            "modelled");
  const std::int64_t depth = read_depth(c), width = c.size({"intermediate_size"}, 1, 1e7);
  const std::int64_t first = c.size_or({"moe_layer_start_index"}, 1, 0, 1e4);
  const std::int64_t stated = c.size_or({"moe_layer_end_index"}, -1, -1, 1e4), last = stated < 0 ? depth - 1 : stated;
  const std::int64_t every = c.size_or({"moe_layer_interval"}, 1, 1, 1e4);
  for (std::int64_t i = 0; i < depth; ++i) {
    const bool mixture = (i + 1) % every == 0 && i >= first && i <= last;
    out.add(mixture ? moe_of(layer, moe) : dense_of(layer, width));
  }
}

/// Ling and Ring: DeepSeek's order of layers around plain attention; the second
/// ones with norms of queries and keys.
void build_bailing(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  layer.attention.qkv_bias = c.flag_or("use_qkv_bias", false);
  layer.attention.out_bias = c.flag_or("use_bias", false);
  if (c.flag_or("use_qk_norm", false)) layer.attention.qk_norm = QkNorm::PerHead;
  MoeShape moe = read_experts(c, {"moe_intermediate_size"});
  moe.shared_width = c.size_or({"num_shared_experts"}, 0, 0, 1e4) *
                     c.size_or({"moe_shared_expert_intermediate_size"}, moe.expert_width, 1, 1e7);
  moe.score_bias = c.flag_or("moe_router_enable_expert_bias", false);
  const std::int64_t depth = read_depth(c), width = c.size({"intermediate_size"}, 1, 1e7);
  for (std::int64_t i = 0; i < depth; ++i) out.add(is_mixture(c, i) ? moe_of(layer, moe) : dense_of(layer, width));
  add_mtp(c, out, moe_of(layer, moe), false);
}

/// dots.llm1: DeepSeek's order of layers, norms of queries and keys.
void build_dots1(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  read_attention_bias(c, layer);
  layer.attention.qk_norm = QkNorm::PerHead;
  MoeShape moe = read_deepseek_experts(c);
  moe.score_bias = true;
  const std::int64_t depth = read_depth(c), width = c.size({"intermediate_size"}, 1, 1e7);
  const std::int64_t window = c.size_or({"sliding_window"}, c.is_null("sliding_window") ? 0 : 4096);
  const std::int64_t first = c.size_or({"max_window_layers"}, 62, 0, 1e4);
  const bool listed = c.has("layer_types");
  const std::vector<bool> sliding = sliding_layers(c, depth, 0);
  for (std::int64_t i = 0; i < depth; ++i) {
    layer.attention.window = (listed ? sliding[static_cast<std::size_t>(i)] : i >= first) ? window : 0;
    out.add(is_mixture(c, i) ? moe_of(layer, moe) : dense_of(layer, width));
  }
}

/// A number that a config may also state once for every layer; they must be
/// equal.
std::int64_t same_everywhere(JsonConfig& c, std::string_view key, std::int64_t assumed) {
  if (!c.is_list(key)) return c.size_or({key}, assumed, 0, 1e7);
  const std::vector<std::int64_t> all = c.sizes(key);
  if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end())
    c.error(key, "unsupported", fmt::format("`{}` differs between layers, which is not modelled", key));
  else
    static_cast<void>(c.sizes_of_layers(key, read_depth(c)));
  return all.empty() ? assumed : std::clamp<std::int64_t>(all.front(), 0, 10'000'000);
}

/// Hunyuan-A13B: every layer a mixture beside shared experts.
void build_hunyuan_moe(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  read_common(c, m, false);
  if (c.flag_or("use_cla", false))
    c.error("use_cla", "unsupported", "`use_cla`: layers that share keys and values are not modelled");
  static_cast<void>(c.size_or({"cla_share_factor"}, 1));  // of no meaning without it, and published so
  Layer layer;
  layer.attention = read_heads(c, m.hidden);
  read_attention_bias(c, layer);
  if (c.flag_or("use_qk_norm", true)) layer.attention.qk_norm = QkNorm::PerHead;
  MoeShape moe;
  moe.experts = same_everywhere(c, "num_experts", 1);
  moe.top_k = same_everywhere(c, "moe_topk", 1);
  const std::int64_t width = c.size({"intermediate_size"}, 1, 1e7);
  moe.expert_width = same_everywhere(c, "moe_intermediate_size", width);
  const std::int64_t shared = same_everywhere(c, "num_shared_expert", 1) * width;
  moe.shared_width = c.flag_or("use_mixed_mlp_moe", true) ? shared : 0;
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(moe_of(layer, moe));
}

}  // namespace

const std::vector<ModelFamily>& expert_families() {
  static const std::vector<ModelFamily> kFamilies = {
      {"bailing_moe", build_bailing},
      {"bailing_moe_v2", build_bailing},
      {"dbrx", build_dbrx},
      {"deepseek", build_deepseek},
      {"dots1", build_dots1},
      {"ernie4_5_moe", build_ernie_moe},
      {"glm4_moe", build_glm4_moe},
      {"gpt_oss", build_gpt_oss},
      {"granitemoe", build_granite_moe},
      {"granitemoeshared", build_granite_moe},
      {"hunyuan", build_hunyuan_moe},  // what Hunyuan-A13B calls itself
      {"hunyuan_v1_moe", build_hunyuan_moe},
      {"minimax_m2", build_minimax_m2},
      {"mixtral", build_mixtral},
      {"olmoe", build_olmoe},
      {"phimoe", build_phimoe},
      {"qwen2_moe", build_qwen2_moe},
      {"qwen3_moe", build_qwen3_moe},
      {"qwen3_vl_moe_text", build_qwen3_moe},
  };
  return kFamilies;
}

}  // namespace plan
