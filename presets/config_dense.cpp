// Families of dense decoders that do not descend from Llama: which keys of config.json mean what, and what a family
// takes for granted (plan-formulas(7) A2).
#include "presets/json_config.hpp"

namespace plan {
namespace {

/// Configs of Gemma 3 leave out what equals the class's defaults.
void build_gemma3(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  m.hidden = c.size_or({"hidden_size"}, 2304, 1, 1e6);
  m.vocab = c.size_or({"vocab_size"}, 262208, 1);
  m.tied = c.flag_or("tie_word_embeddings", true);
  Layer layer;
  layer.norms = 4;
  layer.attention.heads = c.size_or({"num_attention_heads"}, 8, 1, 1e5);
  layer.attention.kv_heads = c.size_or({"num_key_value_heads"}, 4, 1, 1e5);
  layer.attention.head_dim = c.size_or({"head_dim"}, 256, 1, 1e5);
  layer.attention.qk_norm = QkNorm::PerHead;
  read_attention_bias(c, layer);
  layer.dense.width = c.size_or({"intermediate_size"}, 9216, 1, 1e7);
  const std::int64_t depth = c.size_or({"num_hidden_layers"}, 26, 1, 1e4);
  const std::int64_t window = c.size_or({"sliding_window"}, 4096);
  const std::vector<bool> sliding =
      sliding_layers(c, depth, c.size_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6, 1, 1e4));
  for (std::int64_t i = 0; i < depth; ++i) {
    layer.attention.window = sliding[static_cast<std::size_t>(i)] ? window : 0;
    out.add(layer);
  }
}

/// LayerNorm decoders with two plain matrices in the FFN.
void add_gpt_layers(JsonConfig& c, ModelBuilder& out, Layer layer, std::int64_t width) {
  out.model.norm = Norm::Layer;
  layer.dense.width = width;
  layer.dense.gated = false;
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(layer);
}

Layer biased_layer(JsonConfig& c, Model& m, bool tied) {
  Layer layer = begin_layer(c, m, tied);
  layer.attention.qkv_bias = layer.attention.out_bias = layer.dense.bias = true;
  return layer;
}

void build_gpt2(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  const Layer layer = biased_layer(c, m, true);
  if (!c.has("resid_pdrop")) m.dropout = 0.1;
  m.positions = c.size({"n_positions", "n_ctx"});
  add_gpt_layers(c, out, layer, c.size_or({"n_inner"}, 4 * m.hidden, 1, 1e7));
}

void build_bloom(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  const Layer layer = biased_layer(c, m, true);
  m.embedding_norm = true;
  add_gpt_layers(c, out, layer, 4 * m.hidden);
}

void build_opt(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  const Layer layer = biased_layer(c, m, true);
  m.positions = c.size({"max_position_embeddings"}) + 2;  // the first two rows are never used
  if (c.size_or({"word_embed_proj_dim"}, m.hidden) != m.hidden)
    c.error("word_embed_proj_dim", "unsupported", "embeddings narrower than the hidden width are not modelled");
  add_gpt_layers(c, out, layer, c.size({"ffn_dim"}, 1, 1e7));
}

void build_gpt_neox(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  Layer layer = biased_layer(c, m, false);
  read_attention_bias(c, layer, true);
  static_cast<void>(c.flag_or("use_parallel_residual", true));  // each half has a norm of its own either way
  add_gpt_layers(c, out, layer, c.size({"intermediate_size"}, 1, 1e7));
}

/// GPT-J and Phi: one norm for both halves, a biased head.
void build_gptj(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  Layer layer = biased_layer(c, m, false);
  m.head_bias = true;
  layer.attention.qkv_bias = layer.attention.out_bias = false;
  layer.norms = 1;
  add_gpt_layers(c, out, layer, c.size_or({"n_inner"}, 4 * m.hidden, 1, 1e7));
}

void build_phi(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  Layer layer = biased_layer(c, m, false);
  m.head_bias = true;
  layer.norms = 1;
  if (c.flag_or("qk_layernorm", false)) c.error("qk_layernorm", "unsupported", "`qk_layernorm` of Phi is not modelled");
  add_gpt_layers(c, out, layer, c.size_or({"intermediate_size"}, 4 * m.hidden, 1, 1e7));
}

void build_starcoder2(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  Layer layer = biased_layer(c, m, true);
  layer.attention.qkv_bias = layer.attention.out_bias = layer.dense.bias = c.flag_or("use_bias", true);
  layer.attention.window = c.size_or({"sliding_window"}, 0);
  add_gpt_layers(c, out, layer, c.size({"intermediate_size"}, 1, 1e7));
}

/// 7B: one KV head and one norm. 40B and 180B: the new architecture, grouped heads and a norm for each half.
void build_falcon(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  Layer layer = begin_layer(c, m, true);
  const bool grouped = c.flag_or("new_decoder_architecture", false);
  if (!grouped) layer.attention.kv_heads = c.flag_or("multi_query", true) ? 1 : layer.attention.heads;
  layer.norms = grouped ? static_cast<int>(c.size_or({"num_ln_in_parallel_attn"}, 2, 1, 2))
                        : (c.flag_or("parallel_attn", true) ? 1 : 2);
  const bool bias = c.flag_or("bias", false);
  layer.attention.qkv_bias = layer.attention.out_bias = layer.dense.bias = bias;
  add_gpt_layers(c, out, layer, c.size_or({"ffn_hidden_size"}, 4 * m.hidden, 1, 1e7));
}

/// Keys and values of MPT: one for all heads, one for each group of them, or one for each head.
void read_mpt_keys(JsonConfig& attention, AttentionShape& a) {
  const std::string type = attention.text_or("attn_type", "multihead_attention");
  const bool one = type == "multiquery_attention", grouped = type == "grouped_query_attention";
  if (!one && !grouped && type != "multihead_attention")
    attention.error("attn_type", "bad_value", "`attn_type` is no attention of this family",
                    {"its attentions are multihead_attention, multiquery_attention, grouped_query_attention"});
  const std::int64_t stated = attention.size_or({"kv_n_heads"}, one ? 1 : a.heads, 1, 1e5);
  if (!grouped && attention.has("attn_type") && stated != (one ? 1 : a.heads))
    attention.error("kv_n_heads", "conflict", "`attn_type` and `kv_n_heads` make different numbers of keys");
  a.kv_heads = stated;
}

void build_mpt(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  read_common(c, m, true);
  m.norm_bias = !c.flag_or("no_bias", true);
  JsonConfig attention = c.object("attn_config");
  if (c.flag_or("learned_pos_emb", true) && !attention.flag_or("alibi", false)) m.positions = c.size({"max_seq_len"});
  Layer layer;
  layer.attention = read_heads(c, m.hidden);
  read_mpt_keys(attention, layer.attention);
  read_dropout(attention, m);
  layer.attention.qkv_bias = layer.attention.out_bias = layer.dense.bias = m.norm_bias;
  c.take(attention);
  add_gpt_layers(c, out, layer, c.size_or({"expansion_ratio"}, 4, 1, 64) * m.hidden);
}

void build_nemotron(JsonConfig& c, ModelBuilder& out) {
  Layer layer = begin_layer(c, out.model, false);
  read_attention_bias(c, layer);
  layer.dense.bias = c.flag_or("mlp_bias", false);
  add_gpt_layers(c, out, layer, c.size({"intermediate_size"}, 1, 1e7));
}

/// StableLM 2: LayerNorms with shifts around a gated FFN; parallel halves share one norm.
void build_stablelm(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  m.norm = Norm::Layer;
  Layer layer = begin_layer(c, m, false);
  layer.attention.qkv_bias = c.flag_or("use_qkv_bias", false);
  layer.norms = c.flag_or("use_parallel_residual", false) ? 1 : 2;
  layer.dense.width = c.size({"intermediate_size"}, 1, 1e7);
  if (c.flag_or("qk_layernorm", false))
    c.error("qk_layernorm", "unsupported",
            "`qk_layernorm` of StableLM, a norm of its own for every head, is not modelled");
  for (std::int64_t i = read_depth(c); i > 0; --i) out.add(layer);
}

/// Command-R: one LayerNorm without shift before both halves; of Command-R7B and A three of four layers have a window.
void build_cohere(JsonConfig& c, ModelBuilder& out) {
  Model& m = out.model;
  read_common(c, m, true);
  m.norm = Norm::Layer;
  m.norm_bias = false;
  Layer layer;
  layer.norms = 1;
  layer.attention = read_heads(c, m.hidden);
  read_attention_bias(c, layer);
  layer.dense.width = c.size({"intermediate_size"}, 1, 1e7);
  if (c.flag_or("use_qk_norm", false))
    c.error("use_qk_norm", "unsupported", "`use_qk_norm` of Cohere, a norm of its own for every head, is not modelled");
  const bool second = c.text_or("model_type", "") == "cohere2";
  const std::int64_t depth = read_depth(c);
  const std::int64_t every = second ? c.size_or({"sliding_window_pattern", "_sliding_window_pattern"}, 4, 1, 1e4) : 1;
  const std::int64_t window = second ? c.size_or({"sliding_window"}, 4096) : 0;
  const std::vector<bool> sliding = sliding_layers(c, depth, every);
  for (std::int64_t i = 0; i < depth; ++i) {
    layer.attention.window = sliding[static_cast<std::size_t>(i)] ? window : 0;
    out.add(layer);
  }
}

}  // namespace

const std::vector<ModelFamily>& dense_families() {
  static const std::vector<ModelFamily> kFamilies = {
      {"bloom", build_bloom},   {"cohere", build_cohere},     {"cohere2", build_cohere},
      {"falcon", build_falcon}, {"gemma3", build_gemma3},     {"gemma3_text", build_gemma3},
      {"gpt2", build_gpt2},     {"gpt_neox", build_gpt_neox}, {"gptj", build_gptj},
      {"mpt", build_mpt},       {"nemotron", build_nemotron}, {"opt", build_opt},
      {"phi", build_phi},       {"stablelm", build_stablelm}, {"starcoder2", build_starcoder2},
  };
  return kFamilies;
}

}  // namespace plan
