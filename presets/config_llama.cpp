// Families of dense decoders that descend from Llama: RMSNorms, rotary positions and one FFN a layer
// (plan-formulas(7) A2). What a family takes for granted is its row here, as its class in transformers has it.
#include "presets/json_config.hpp"

namespace plan {
namespace {

/// Which layers attend to `sliding_window` tokens alone.
enum class Windows : std::uint8_t {
  Always,     ///< all of them
  WhenAsked,  ///< those behind `max_window_layers`, and only with `use_sliding_window`
  Pattern,    ///< those that are no multiple of `full_every`, or that `layer_types` names
  Never,
};

/// What distinguishes the families.
struct LlamaLike {
  bool tied = false;
  bool qkv_bias = false;         ///< biases whatever the config says (Qwen2)
  bool attention_bias = false;   ///< what an absent `attention_bias` stands for
  bool bias_on_out = true;       ///< `attention_bias` covers the output projection
  bool bias_everywhere = false;  ///< `use_bias` covers the FFN too (ERNIE 4.5)
  QkNorm qk_norm = QkNorm::None;
  bool gated = true;
  int norms = 2;
  std::int64_t head_dim = 0;  ///< what an absent `head_dim` stands for; 0 = hidden / heads
  Windows windows = Windows::Never;
  std::int64_t window = 0;      ///< what an absent `sliding_window` stands for
  std::int64_t full_every = 0;  ///< every n-th layer is full; 0 = none but those that `layer_types` names
};

/// `sliding_window`: null is none, and an absent one the family's own.
std::int64_t read_window(JsonConfig& c, const LlamaLike& family) {
  return c.size_or({"sliding_window"}, c.is_null("sliding_window") ? 0 : family.window);
}

std::vector<std::int64_t> read_windows(JsonConfig& c, std::int64_t depth, const LlamaLike& family) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(depth), 0);
  const std::int64_t window = read_window(c, family);
  std::int64_t first_of_all = family.windows == Windows::Always ? 0 : depth;
  if (family.windows == Windows::WhenAsked && c.flag_or("use_sliding_window", false))
    first_of_all = c.size_or({"max_window_layers"}, 28, 0, 1e4);
  const bool listed = c.has("layer_types");
  const std::vector<bool> sliding = sliding_layers(c, depth, family.full_every);
  for (std::int64_t i = 0; i < depth; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool patterned = listed || family.windows == Windows::Pattern;
    if (patterned ? sliding[at] : i >= first_of_all) windows[at] = window;
  }
  return windows;
}

void read_biases(JsonConfig& c, Layer& layer, const LlamaLike& family) {
  AttentionShape& a = layer.attention;
  const bool all = c.flag_or("use_bias", c.flag_or("bias", false));
  const bool said = c.has("use_bias") || c.has("bias");
  const bool bias = c.flag_or("attention_bias", said ? all : family.attention_bias);
  a.qkv_bias = family.qkv_bias || c.flag_or("qkv_bias", bias);
  a.out_bias = c.flag_or("attention_out_bias", bias && family.bias_on_out);
  layer.dense.bias = c.flag_or("mlp_bias", all && family.bias_everywhere);
}

void build_llama_like(JsonConfig& c, ModelBuilder& out, const LlamaLike& family) {
  Layer layer = begin_layer(c, out.model, family.tied, family.head_dim);
  layer.norms = family.norms;
  layer.attention.qk_norm = family.qk_norm;
  layer.dense.width = c.size({"intermediate_size"}, 1, 1e7);
  layer.dense.gated = family.gated;
  read_biases(c, layer, family);
  for (const std::int64_t window : read_windows(c, read_depth(c), family)) {
    layer.attention.window = window;
    out.add(layer);
  }
}

void build_llama(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {}); }
void build_mistral(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.windows = Windows::Always, .window = 4096});
}
/// Ministral 2410 lists its windows, Ministral 3 has none.
void build_ministral(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.windows = Windows::Always, .window = 4096});
}
void build_ministral3(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.head_dim = 128, .windows = Windows::Always});
}
void build_phi3(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {.windows = Windows::Always}); }
void build_internlm(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {.attention_bias = true}); }
/// InternLM2 calls its biases `bias`, true where it is absent.
void build_internlm2(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {.attention_bias = true}); }
void build_internlm3(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.bias_everywhere = true, .head_dim = 128});
}
void build_minicpm(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {.tied = true}); }
void build_smollm3(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.tied = true, .windows = Windows::WhenAsked});
}
void build_qwen2(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.qkv_bias = true, .bias_on_out = false, .windows = Windows::WhenAsked, .window = 4096});
}
/// MiMo: Qwen2's layers, with prediction modules.
void build_mimo(JsonConfig& c, ModelBuilder& out) {
  build_qwen2(c, out);
  const std::int64_t depth = c.size_or({"num_nextn_predict_layers"}, 0, 0, 64);
  if (depth > 0 && !out.model.layers.empty()) out.model.mtp = {static_cast<int>(depth), 1, {out.model.layers.back()}};
}
void build_qwen3(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out,
                   {.qk_norm = QkNorm::PerHead, .head_dim = 128, .windows = Windows::WhenAsked, .window = 4096});
}
/// OLMo 1: LayerNorms without weights.
void build_olmo(JsonConfig& c, ModelBuilder& out) {
  out.model.norm = Norm::Layer;
  out.model.norm_weights = false;
  build_llama_like(c, out, {});
}
void build_olmo2(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {.qk_norm = QkNorm::Full}); }
void build_olmo3(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.qk_norm = QkNorm::Full, .windows = Windows::Pattern, .window = 4096, .full_every = 4});
}
void build_gemma(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {.tied = true, .head_dim = 256}); }
void build_gemma2(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(
      c, out,
      {.tied = true, .norms = 4, .head_dim = 256, .windows = Windows::Pattern, .window = 4096, .full_every = 2});
}
/// GLM-4-9B, and GLM-4-32B with norms behind both halves.
void build_glm(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.attention_bias = true, .bias_on_out = false, .head_dim = 128});
}
void build_glm4(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.attention_bias = true, .bias_on_out = false, .norms = 4, .head_dim = 128});
}
void build_seed_oss(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.attention_bias = true, .bias_on_out = false, .head_dim = 128});
}
/// EXAONE 4: norms behind the halves; the pattern is a number or letters, L with a window and G without.
void build_exaone4(JsonConfig& c, ModelBuilder& out) {
  LlamaLike family{.qk_norm = QkNorm::PerHead, .windows = Windows::Pattern, .window = 4096, .full_every = 4};
  if (c.is_text("sliding_window_pattern")) {
    const std::string letters = c.text_or("sliding_window_pattern", "");
    if (letters.find('G') + 1 != letters.size() || letters.find_first_not_of("LG") != std::string::npos)
      c.error("sliding_window_pattern", "unsupported", "`sliding_window_pattern` is not L .. L and one G");
    family.full_every = static_cast<std::int64_t>(letters.size());
  } else {
    family.full_every = c.size_or({"sliding_window_pattern"}, 4, 1, 1e4);
  }
  if (read_window(c, family) == 0) family.windows = Windows::Never;
  build_llama_like(c, out, family);
}
/// Apertus: a plain FFN whose activation learns two numbers a layer.
void build_apertus(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.qk_norm = QkNorm::PerHead, .gated = false});
  if (c.text_or("hidden_act", "xielu") == "xielu") out.model.extra_parameters = 2 * out.model.depth();
}
void build_hunyuan(JsonConfig& c, ModelBuilder& out) {
  if (c.flag_or("use_cla", false))
    c.error("use_cla", "unsupported", "`use_cla`: layers that share keys and values are not modelled");
  static_cast<void>(c.size_or({"cla_share_factor"}, 1));  // of no meaning without it, and published so
  build_llama_like(c, out, {.qk_norm = c.flag_or("use_qk_norm", true) ? QkNorm::PerHead : QkNorm::None});
}
void build_ernie(JsonConfig& c, ModelBuilder& out) {
  build_llama_like(c, out, {.tied = true, .bias_everywhere = true, .head_dim = 128});
}
void build_arcee(JsonConfig& c, ModelBuilder& out) { build_llama_like(c, out, {.gated = false}); }

}  // namespace

const std::vector<ModelFamily>& llama_families() {
  static const std::vector<ModelFamily> kFamilies = {
      {"apertus", build_apertus},
      {"arcee", build_arcee},
      {"baichuan", build_llama},
      {"ernie4_5", build_ernie},
      {"exaone4", build_exaone4},
      {"gemma", build_gemma},
      {"gemma2", build_gemma2},
      {"glm", build_glm},
      {"glm4", build_glm4},
      {"granite", build_llama},
      {"hunyuan_v1_dense", build_hunyuan},
      {"internlm", build_internlm},
      {"internlm2", build_internlm2},
      {"internlm3", build_internlm3},
      {"llama", build_llama},
      {"mimo", build_mimo},
      {"minicpm", build_minicpm},
      {"ministral", build_ministral},
      {"ministral3", build_ministral3},
      {"mistral", build_mistral},
      {"olmo", build_olmo},
      {"olmo2", build_olmo2},
      {"olmo3", build_olmo3},
      {"phi3", build_phi3},
      {"qwen2", build_qwen2},
      {"qwen2_5_vl", build_qwen2},
      {"qwen2_5_vl_text", build_qwen2},
      {"qwen2_vl", build_qwen2},
      {"qwen2_vl_text", build_qwen2},
      {"qwen3", build_qwen3},
      {"qwen3_vl_text", build_qwen3},
      {"seed_oss", build_seed_oss},
      {"smollm3", build_smollm3},
  };
  return kFamilies;
}

}  // namespace plan
