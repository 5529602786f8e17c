// Families with latent attention, linear attention, attention in chunks or
// Mamba: the keys of config.json and the defaults of the family
// (plan-formulas(7) A2).
#include <fmt/core.h>

#include <algorithm>

#include "presets/json_config.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Gated DeltaNet but for every `full_attention_interval`-th layer; mixtures
/// or, in Qwen3.5, dense layers too.
void build_qwen3_next(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  read_common(c, m, false);
  Layer full;
  full.attention = read_heads(c, m.hidden);
  full.attention.qk_norm = QkNorm::PerHead;
  full.attention.output_gate = true;
  Layer linear;
  linear.mixer = Mixer::DeltaNet;
  linear.delta = {c.size({"linear_num_key_heads"}, 1, 1e5), c.size({"linear_num_value_heads"}, 1, 1e5),
                  c.size({"linear_key_head_dim"}, 1, 1e5), c.size({"linear_value_head_dim"}, 1, 1e5),
                  c.size_or({"linear_conv_kernel_dim"}, 4, 1, 1e3)};
  if (c.has("num_experts")) {
    MoeShape moe = read_experts(c, {"moe_intermediate_size"});
    moe.shared_width = c.size_or({"shared_expert_intermediate_size"}, 0, 0, 1e7);
    moe.shared_gate = moe.shared_width > 0;
    full = moe_of(full, moe);
    linear = moe_of(linear, moe);
  } else {
    full.dense.width = linear.dense.width = c.size({"intermediate_size"}, 1, 1e7);
  }
  const std::int64_t depth = read_depth(c), interval = c.size_or({"full_attention_interval"}, 4, 1, 1e4);
  const std::vector<std::string> types = c.layers("layer_types", depth, {"linear_attention", "full_attention"});
  if (!c.flag_or("attn_output_gate", true))
    c.error("attn_output_gate", "unsupported", "this family without gates behind its attention is not modelled");
  if (c.size_or({"decoder_sparse_step"}, 1, 1, 1e4) != 1 || !c.sizes("mlp_only_layers").empty())
    c.error("mlp_only_layers", "unsupported", "plain layers between the mixtures of this family are not modelled");
  for (std::int64_t i = 0; i < depth; ++i) {
    const auto at = static_cast<std::size_t>(i);
    out.add((at < types.size() ? types[at] == "full_attention" : (i + 1) % interval == 0) ? full : linear);
  }
  const std::int64_t predicted = c.size_or({"mtp_num_hidden_layers"}, 0, 0, 64);
  if (predicted > 0) m.mtp = {1, 1, std::vector<int>(static_cast<std::size_t>(predicted), out.kind(full)), false};
}

LatentShape read_latent_shape(JsonConfig& c) {
  LatentShape a;
  a.heads = c.size({"num_attention_heads"}, 1, 1e5);
  static_cast<void>(c.size_or({"num_key_value_heads"}, a.heads, 1, 1e5));  // of no meaning: each head has its own
  a.q_rank = c.size_or({"q_lora_rank"}, 0, 0, 1e6);
  a.kv_rank = c.size({"kv_lora_rank"}, 1, 1e6);
  a.nope_dim = c.size({"qk_nope_head_dim"}, 0, 1e5);
  a.rope_dim = c.size({"qk_rope_head_dim"}, 0, 1e5);
  a.value_dim = c.size({"v_head_dim"}, 1, 1e5);
  a.index_heads = c.size_or({"index_n_heads"}, 0, 0, 1e5);
  a.index_dim = c.size_or({"index_head_dim"}, 0, 0, 1e5);
  a.index_top_k = c.size_or({"index_topk"}, 0);
  return a;
}

/// How DeepSeek's routers choose experts: by score, by groups of them, or by a score with a bias.
std::string read_topk_method(JsonConfig& c) {
  std::string method = c.text_or("topk_method", "");
  if (!method.empty() && method != "greedy" && method != "group_limited_greedy" && method != "noaux_tc")
    c.error("topk_method", "bad_value",
            fmt::format("`topk_method` is `{}`, a choice of experts that is not known", yaml::printable(method)),
            {"known are greedy, group_limited_greedy, noaux_tc"});
  return method;
}

/// DeepSeek-V2, V3, V3.2, Kimi K2, Moonlight, GLM-4.7-Flash, GLM-5, Mistral Small 4.
void build_latent(JsonConfig& c, ModelBuilder& out) {
  read_common(c, out.model, false);
  Layer layer;
  layer.mixer = Mixer::Latent;
  layer.latent = read_latent_shape(c);
  MoeShape moe = read_deepseek_experts(c);
  const std::string type = c.text_or("model_type", "");
  moe.score_bias = read_topk_method(c) == "noaux_tc" || type == "glm4_moe_lite";
  const std::int64_t depth = read_depth(c), width = c.size({"intermediate_size"}, 1, 1e7);
  const bool lite = type == "glm4_moe_lite",
             three = type == "deepseek_v3" || type == "deepseek_v32" || type == "glm_moe_dsa";
  const std::int64_t dense = lite ? 1 : three ? 3 : 0;
  const std::vector<std::string> indexers = c.layers("indexer_types", depth, {"full", "shared"});
  for (std::int64_t i = 0; i < depth; ++i) {
    Layer here = layer;
    if (static_cast<std::size_t>(i) < indexers.size() && indexers[static_cast<std::size_t>(i)] == "shared")
      here.latent.index_heads = here.latent.index_dim = 0;  // attends to what the last indexer chose
    out.add(is_mixture(c, i, dense) ? moe_of(here, moe) : dense_of(here, width));
  }
  add_mtp(c, out, moe_of(layer, moe), type == "deepseek_v3" || type == "deepseek_v32");
}

/// Granite 4: attention or Mamba-2, then shared experts beside routed ones, or
/// alone as a plain FFN.
void build_granite_hybrid(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  Layer layer = begin_layer(c, m, false);
  read_attention_bias(c, layer);
  const std::int64_t shared = c.size_or({"shared_intermediate_size"}, 1024, 0, 1e7);
  MoeShape moe;
  moe.experts = c.size_or({"num_local_experts"}, 8, 0, 1e5);
  moe.top_k = c.size_or({"num_experts_per_tok"}, 2, 0, 1e5);
  moe.expert_width = c.size({"intermediate_size"}, 1, 1e7);
  moe.shared_width = shared;
  layer = moe.experts > 0 ? moe_of(layer, moe) : dense_of(layer, shared);
  Layer scan = layer;
  scan.mixer = Mixer::Mamba2;
  scan.attention = {};
  const std::int64_t heads = c.size_or({"mamba_n_heads"}, 128, 1, 1e5);
  const std::int64_t inner = c.size_or({"mamba_expand"}, 2, 1, 64) * m.hidden;
  const std::int64_t wide =
      c.is_text("mamba_d_head") ? inner / heads : c.size_or({"mamba_d_head"}, inner / heads, 1, 1e5);
  scan.mamba = {heads, wide, c.size_or({"mamba_n_groups"}, 1, 1, 1e5), c.size_or({"mamba_d_state"}, 256, 1, 1e5),
                c.size_or({"mamba_d_conv"}, 4, 1, 1e3)};
  if (heads * wide != inner)
    c.error("mamba_n_heads", "bad_value",
            "`mamba_n_heads` times `mamba_d_head` is not `mamba_expand` times "
            "the hidden width");
  if (!c.flag_or("mamba_conv_bias", true) || c.flag_or("mamba_proj_bias", false))
    c.error("mamba_proj_bias", "unsupported",
            "a Mamba-2 without the convolution's bias, or with biases of its "
            "projections, is not modelled");
  const std::int64_t depth = read_depth(c);
  const std::vector<std::string> types =
      c.layers("layer_types", depth, {"mamba", "linear_attention", "attention", "full_attention"});
  for (std::int64_t i = 0; i < depth; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string type = at < types.size() ? types[at] : "mamba";
    out.add(type == "attention" || type == "full_attention" ? layer : scan);
  }
}

/// Which layers of Llama 4 are mixtures: every so many-th, or those that `moe_layers` names.
std::vector<bool> llama4_mixtures(JsonConfig& c, std::int64_t depth) {
  const std::vector<std::int64_t> listed = c.layer_indexes("moe_layers", depth);
  const std::int64_t step = c.size_or({"interleave_moe_layer_step"}, 1, 1, 1e4);
  std::vector<bool> stepped, named(static_cast<std::size_t>(depth), false);
  for (std::int64_t i = 0; i < depth; ++i) stepped.push_back((i + 1) % step == 0);
  if (!c.has("moe_layers")) return stepped;
  if (c.sizes("moe_layers").empty()) c.error("moe_layers", "bad_value", "`moe_layers` names no layer");
  for (const std::int64_t i : listed) named[static_cast<std::size_t>(i)] = true;
  if (c.has("interleave_moe_layer_step") && named != stepped)
    c.error("moe_layers", "conflict", "`moe_layers` and `interleave_moe_layer_step` make mixtures of different layers");
  return named;
}

/// Which layers of Llama 4 attend in chunks: `layer_types` says so, or `no_rope_layers`, where 1 is rotary and chunked,
/// despite the name.
std::vector<bool> llama4_chunked(JsonConfig& c, std::int64_t depth) {
  const std::vector<std::string> types = c.layers("layer_types", depth, {"chunked_attention", "full_attention"});
  const std::vector<std::int64_t> rope = c.sizes_of_layers("no_rope_layers", depth);
  std::vector<bool> chunked;
  for (std::size_t i = 0; i < static_cast<std::size_t>(depth); ++i)
    chunked.push_back(i < types.size()  ? types[i] == "chunked_attention"
                      : i < rope.size() ? rope[i] != 0
                                        : (i + 1) % 4 != 0);
  return chunked;
}

/// Llama 4: `intermediate_size` is an expert's and the shared expert's; three
/// of four layers attend in chunks.
void build_llama4(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  c.flag_or("use_qk_norm",
            true);  // norms without weights, inside the kernel of the attention
  MoeShape moe;
  moe.experts = c.size({"num_local_experts"}, 1, 1e5);
  moe.top_k = c.size_or({"num_experts_per_tok"}, 1, 1, 1e5);
  moe.expert_width = moe.shared_width = c.size({"intermediate_size"}, 1, 1e7);
  const std::int64_t depth = read_depth(c);
  const std::int64_t dense = c.size_or({"intermediate_size_mlp"}, moe.expert_width, 1, 1e7);
  const std::int64_t chunk = c.size_or({"attention_chunk_size"}, 8192);
  const std::vector<bool> mixtures = llama4_mixtures(c, depth), chunked = llama4_chunked(c, depth);
  for (std::size_t i = 0; i < mixtures.size(); ++i) {
    layer.attention.window = chunked[i] ? chunk : 0;
    out.add(mixtures[i] ? moe_of(layer, moe) : dense_of(layer, dense));
  }
}

/// One sub-block per layer: M Mamba-2, * attention, - FFN, E mixture.
Layer nemotron_h_layer(JsonConfig& c, const Model& m, char letter) {
  Layer layer;
  layer.mixer = Mixer::None;
  layer.ffn = Ffn::None;
  layer.norms = 1;
  if (letter == '*') {
    layer.mixer = Mixer::Attention;
    layer.attention = read_heads(c, m.hidden);
  } else if (letter == 'M') {
    layer.mixer = Mixer::Mamba2;
    layer.mamba = {c.size({"mamba_num_heads"}, 1, 1e5), c.size({"mamba_head_dim"}, 1, 1e5),
                   c.size({"n_groups"}, 1, 1e5), c.size({"ssm_state_size", "mamba_d_state"}, 1, 1e5),
                   c.size_or({"conv_kernel"}, 4, 1, 1e3)};
  } else if (letter == '-') {
    layer.ffn = Ffn::Dense;
    layer.dense = {c.size({"intermediate_size"}, 1, 1e7), false, false};
  } else {
    layer.ffn = Ffn::Moe;
    layer.moe = read_experts(c, {"moe_intermediate_size"});
    layer.moe.gated = false;
    if (c.size_or({"n_shared_experts"}, 1, 0, 1e4) > 1)
      c.error("n_shared_experts", "unsupported", "several shared experts of this family are not modelled");
    layer.moe.score_bias = true;
    layer.moe.shared_width = c.size_or({"moe_shared_expert_intermediate_size"}, 0, 0, 1e7);
    layer.moe.latent = c.size_or({"moe_latent_size"}, 0, 0, 1e6);
  }
  return layer;
}

/// The letters of `pattern_key`, or the words of `list_key` in newer configs.
std::string nemotron_h_pattern(JsonConfig& c, std::string_view pattern_key, std::string_view list_key) {
  std::string pattern = c.text_or(pattern_key, "");
  for (const std::string& word : c.words(list_key))
    pattern += word == "mamba" ? 'M' : word == "attention" ? '*' : word == "moe" ? 'E' : word == "mlp" ? '-' : '?';
  const std::string_view key = c.has(pattern_key) ? pattern_key : list_key;
  if (pattern.size() > 10000 || pattern.find_first_not_of("M*-E") != std::string::npos) {
    c.error(key, "bad_value", fmt::format("`{}` is not made of Mamba, attention, FFN and MoE layers", key));
    return {};
  }
  return pattern;
}

void build_nemotron_h(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  read_common(c, m, false);
  const std::string pattern = nemotron_h_pattern(c, "hybrid_override_pattern", "layers_block_type");
  for (const char letter : pattern) out.add(nemotron_h_layer(c, m, letter));
  if (!c.flag_or("use_conv_bias", true) || c.flag_or("mamba_proj_bias", false))
    c.error("use_conv_bias", "unsupported",
            "a Mamba-2 without the convolution's bias, or with biases of its projections, is not modelled");
  if (pattern.empty() && c.errors().empty())
    c.error("", "missing_key", "`hybrid_override_pattern` or `layers_block_type` is missing");
  if (c.size_or({"num_hidden_layers"}, m.depth(), 1, 1e4) != m.depth())
    c.error("num_hidden_layers", "bad_value",
            fmt::format("`num_hidden_layers` is not the {} layers of the pattern", m.depth()));
  m.mtp.depth = static_cast<int>(c.size_or({"num_nextn_predict_layers"}, 0, 0, 64));
  if (m.mtp.depth > 0)
    for (const char letter : nemotron_h_pattern(c, "mtp_hybrid_override_pattern", "mtp_layers_block_type"))
      m.mtp.kinds.push_back(out.kind(nemotron_h_layer(c, m, letter)));
}

}  // namespace

const std::vector<ModelFamily>& mixed_families() {
  static const std::vector<ModelFamily> kFamilies = {
      {"deepseek_v2", build_latent},      {"deepseek_v3", build_latent},    {"deepseek_v32", build_latent},
      {"glm4_moe_lite", build_latent},    {"glm_moe_dsa", build_latent},    {"granitemoehybrid", build_granite_hybrid},
      {"kimi_k2", build_latent},          {"llama4", build_llama4},         {"llama4_text", build_llama4},
      {"mistral4", build_latent},         {"nemotron_h", build_nemotron_h}, {"qwen3_5_moe_text", build_qwen3_next},
      {"qwen3_5_text", build_qwen3_next}, {"qwen3_next", build_qwen3_next},
  };
  return kFamilies;
}

}  // namespace plan
