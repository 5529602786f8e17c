// Attention, latent attention, windows, Gated DeltaNet and sparse attention in Megatron-LM's arguments. Names, defaults
// and which layers a period marks: Megatron core 0.16 to 0.20 transformer_config.py, models/gpt/gpt_layer_specs.py and
// experimental_attention_variant_module_specs.py. Tested by tests/launch/megatron_attention_test.cpp.
#include "cli/launch/megatron/attention.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "cli/launch/job/layer_pattern.hpp"
#include "formulas/layer_kinds.hpp"
#include "presets/yaml.hpp"

namespace plan::megatron {
namespace {

constexpr const char *kVariant = "experimental-attention-variant", *kPeriod = "linear-attention-freq";

AttentionShape attention(const MegatronArgs& args, std::int64_t hidden) {
  AttentionShape shape;
  shape.heads = args.integer("num-attention-heads", 1);
  shape.kv_heads = args.has("group-query-attention") ? args.integer("num-query-groups", 1) : shape.heads;
  shape.head_dim = args.integer("kv-channels", hidden / std::max<std::int64_t>(1, shape.heads));
  const bool biases = !args.has("disable-bias-linear");
  shape.qkv_bias = biases || args.has("add-qkv-bias");
  shape.out_bias = biases;
  if (args.has("qk-layernorm")) shape.qk_norm = QkNorm::PerHead;
  shape.sinks = args.text("softmax-type") == "learnable";
  shape.output_gate = args.has("attention-output-gate");
  return shape;
}

/// Megatron's own defaults where a rank is not given.
LatentShape latent(const MegatronArgs& args) {
  LatentShape shape{.heads = args.integer("num-attention-heads", 1),
                    .q_rank = args.integer("q-lora-rank", 0),
                    .kv_rank = args.integer("kv-lora-rank", 32),
                    .nope_dim = args.integer("qk-head-dim", 128),
                    .rope_dim = args.integer("qk-pos-emb-head-dim", 64),
                    .value_dim = args.integer("v-head-dim", 128)};
  if (is_sparse(args)) {
    shape.index_heads = args.integer("dsa-indexer-n-heads", 0);
    shape.index_dim = args.integer("dsa-indexer-head-dim", 0);
    shape.index_top_k = args.integer("dsa-indexer-topk", 0);
  }
  return shape;
}

/// Changes some layers of a model.
template <class Change>
void change_layers(Model& model, const std::vector<bool>& marked, Change change) {
  for (std::size_t i = 0; i < model.layers.size() && i < marked.size(); ++i) {
    if (!marked[i]) continue;
    Layer layer = model.kinds[static_cast<std::size_t>(model.layers[i])];
    change(layer);
    model.layers[i] = kind_of(model, layer);
  }
}

Error cannot_build(const MegatronArgs& args, const char* flag, std::string why) {
  return {"bad_model", fmt::format("{}: `--{} {}` {}", args.where(flag), flag, yaml::printable(args.text(flag)), why)};
}

}  // namespace

std::optional<std::vector<bool>> marked_layers(std::string_view text, std::size_t depth, bool first) {
  if (text.find('[') != std::string_view::npos) return listed_layers(text, depth);
  const long long period = text.empty() ? 1 : std::atoll(std::string(text).c_str());
  if (period == 0) return std::nullopt;
  const auto every = static_cast<std::size_t>(std::abs(period));  // `i % -1 == 0` holds for every layer
  std::vector<bool> marked(depth);
  for (std::size_t i = 0; i < depth; ++i) marked[i] = first ? i % every == 0 : (i + 1) % every != 0;
  return marked;
}

bool is_sparse(const MegatronArgs& args) { return args.text(kVariant) == "dsa"; }

void put_attention(const MegatronArgs& args, std::int64_t hidden, Layer& layer) {
  if (args.has("multi-latent-attention"))
    layer.mixer = Mixer::Latent, layer.latent = latent(args);
  else
    layer.attention = attention(args, hidden);
}

void put_windows(const MegatronArgs& args, Model& model) {
  const std::string text = args.text("window-size");
  const std::size_t digit = text.find_first_of("0123456789");
  if (digit == std::string::npos) return;
  const std::int64_t window = std::atoll(text.c_str() + digit) + 1;
  const std::string skip = args.text("window-attn-skip-freq");
  std::vector<bool> windowed(model.layers.size(), true);
  if (skip.find('[') != std::string::npos || std::atoll(skip.c_str()) > 0)
    windowed = marked_layers(skip, model.layers.size(), false).value_or(windowed);
  change_layers(model, windowed, [window](Layer& layer) {
    if (layer.mixer == Mixer::Attention) layer.attention.window = window;
  });
}

DeltaNetShape delta_net(const MegatronArgs& args) {
  return {.key_heads = args.integer("linear-num-key-heads", 16),
          .value_heads = args.integer("linear-num-value-heads", 32),
          .key_dim = args.integer("linear-key-head-dim", 128),
          .value_dim = args.integer("linear-value-head-dim", 128),
          .conv = args.integer("linear-conv-kernel-dim", 4)};
}

namespace {

/// Layers that attend to what an earlier one's indexer chose have none of their own (core 0.20,
/// transformer/experimental_attention_variant/dsa.py, is_dsa_skip_topk_layer, which counts layers from one).
std::optional<Error> put_shared_index(const MegatronArgs& args, Model& model) {
  constexpr const char* kShare = "dsa-indexer-topk-freq";
  const std::int64_t period = args.integer(kShare, 1), offset = args.integer("dsa-indexer-skip-topk-offset", 0);
  if (period < 1) return cannot_build(args, kShare, "is no period: 1 or more");
  if (period == 1) return std::nullopt;
  if (offset < 1)
    return cannot_build(args, kShare,
                        "leaves the first layer without keys: `--dsa-indexer-skip-topk-offset` of 1 or more");
  std::vector<bool> shares(model.layers.size());
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] = std::max(static_cast<std::int64_t>(i) + 1 - offset, std::int64_t{0}) % period != 0;
  change_layers(model, shares, [](Layer& layer) { layer.latent.index_heads = layer.latent.index_dim = 0; });
  return std::nullopt;
}

}  // namespace

int predicted_kind(const MegatronArgs& args, Model& model) {
  Layer layer = model.kinds[static_cast<std::size_t>(model.layers.back())];
  if (layer.mixer == Mixer::Latent && is_sparse(args)) layer.latent = latent(args);
  return kind_of(model, layer);
}

std::optional<Error> put_linear_attention(const MegatronArgs& args, Model& model) {
  const std::string variant = args.text(kVariant);
  if (is_sparse(args)) {
    if (!args.has("multi-latent-attention"))
      return cannot_build(args, kVariant, "chooses keys of latent attention: `--multi-latent-attention` is missing");
    for (const char* flag : {"dsa-indexer-n-heads", "dsa-indexer-head-dim", "dsa-indexer-topk"})
      if (args.integer(flag, 0) < 1) return cannot_build(args, kVariant, fmt::format("needs a positive `--{}`", flag));
    return put_shared_index(args, model);
  }
  if (variant != "gated_delta_net" && variant != "gdn" && variant != "gdn2") return std::nullopt;
  if (!args.has(kPeriod)) return cannot_build(args, kVariant, fmt::format("needs `--{}`", kPeriod));
  const auto marked = marked_layers(args.text(kPeriod), model.layers.size(), false);
  if (!marked) return cannot_build(args, kPeriod, fmt::format("does not name {} layers", model.layers.size()));
  const DeltaNetShape shape = delta_net(args);
  if (std::min({shape.key_heads, shape.value_heads, shape.key_dim, shape.value_dim, shape.conv}) < 1 ||
      shape.value_heads % shape.key_heads != 0)
    return cannot_build(args, kVariant,
                        fmt::format("has {} key heads and {} value heads: positive numbers, the second a multiple of "
                                    "the first",
                                    shape.key_heads, shape.value_heads));
  change_layers(model, *marked, [&](Layer& layer) {
    layer.mixer = Mixer::DeltaNet, layer.delta = shape;
    layer.attention = {}, layer.latent = {};
  });
  return std::nullopt;
}

}  // namespace plan::megatron
