// Layers of several kinds in Megatron-LM's arguments: Nemotron's Mamba-2, attention, feed-forward and expert layers,
// where the pipeline is cut between them, and what predicts further tokens. Letters, separators and defaults:
// Megatron core 0.17 models/hybrid/hybrid_layer_allocation.py and transformer_config.py. Tested by
// tests/launch/megatron_hybrid_test.cpp.
#include "cli/launch/megatron/hybrid.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/launch/megatron/attention.hpp"
#include "formulas/layer_kinds.hpp"
#include "presets/quantity.hpp"
#include "presets/yaml.hpp"

namespace plan::megatron {
namespace {

constexpr std::string_view kLetters = "MG*-E";
constexpr std::size_t kMostLetters = 10'000;

/// A letter's layer: one mixer or one feed-forward, behind one norm.
Layer layer_of(char letter, const MegatronArgs& args, const Layer& whole, const MoeShape& moe, std::int64_t hidden) {
  Layer layer;
  layer.mixer = Mixer::None, layer.ffn = Ffn::None, layer.norms = 1;
  if (letter == '*') {
    layer.mixer = whole.mixer, layer.attention = whole.attention, layer.latent = whole.latent;
  } else if (letter == 'M') {
    layer.mixer = Mixer::Mamba2;
    constexpr std::int64_t kExpansion = 2;
    const std::int64_t head = std::max<std::int64_t>(1, args.integer("mamba-head-dim", 64));
    layer.mamba = {.heads = args.integer("mamba-num-heads", kExpansion * hidden / head),
                   .head_dim = head,
                   .groups = args.integer("mamba-num-groups", 8),
                   .state = args.integer("mamba-state-dim", 128),
                   .conv = kMambaTaps};
  } else if (letter == 'G') {
    layer.mixer = Mixer::DeltaNet, layer.delta = delta_net(args);
  } else if (letter == '-') {
    layer.ffn = Ffn::Dense, layer.dense = whole.dense;
  } else {
    layer.ffn = Ffn::Moe, layer.moe = moe;
  }
  return layer;
}

constexpr const char *kAttentionRatio = "hybrid-attention-ratio", *kFfnRatio = "hybrid-mlp-ratio";

double share(const MegatronArgs& args, const char* flag) {
  const double value = parse_number(args.text(flag)).value_or(0);
  return value >= 0 && value <= 1 ? value : 0;
}

/// Puts so many of a letter in place of Mamba layers, evenly: after every `each` of them.
void spread_layers(std::string& layers, char letter, double each) {
  double left = each;
  for (char& layer : layers) {
    if (layer != 'M') continue;
    if (left < 0.5)
      layer = letter, left += each;
    else
      left -= 1;
  }
}

/// Early releases had shares of attention and feed-forward among the layers, the rest of them Mamba: attention evenly
/// between Mamba layers, feed-forwards evenly among those that are left. Shares round as Python does.
std::string pattern_of_shares(std::size_t depth, double attention, double ffn) {
  std::string layers(depth, 'M');
  const double all = static_cast<double>(depth);
  const double attentions = std::nearbyint(all * attention), ffns = std::nearbyint(all * ffn);
  const double mamba = all - attentions;
  if (attentions > 0) spread_layers(layers, '*', mamba / (attentions + 1));
  if (ffns > 0) spread_layers(layers, '-', (mamba - ffns) / ffns);
  return layers;
}

Error bad_pattern(const MegatronArgs& args, const char* flag, std::string why) {
  return {"bad_model",
          fmt::format("{}: `--{} {}` {}", args.where(flag), flag, yaml::printable(args.text(flag)), why),
          {},
          {"name a model that has such layers with `--model`, or give its config.json with `--from`"}};
}

}  // namespace

const char* hybrid_flag(const MegatronArgs& args) {
  for (const char* flag : {"hybrid-layer-pattern", "hybrid-override-pattern", "is-hybrid-model"})
    if (args.has(flag)) return flag;
  for (const char* flag : {kAttentionRatio, kFfnRatio})
    if (share(args, flag) > 0) return flag;
  return nullptr;
}

std::optional<HybridPattern> hybrid_pattern(const MegatronArgs& args) {
  const char* flag = hybrid_flag(args);
  std::string text = flag == nullptr ? std::string() : args.text(flag);
  const bool listed = flag != nullptr && std::string_view(flag).ends_with("pattern");
  if (const auto depth = args.integer("num-layers"); flag != nullptr && !listed && depth && *depth > 0)
    text = pattern_of_shares(static_cast<std::size_t>(std::min<std::int64_t>(*depth, kMostLetters)),
                             share(args, kAttentionRatio), share(args, kFfnRatio));
  if (text.empty() || text.find('$') != std::string::npos) return std::nullopt;
  std::erase_if(text, [](char c) { return c == '[' || c == ']'; });  // layers that are wrapped together
  HybridPattern out;
  const std::size_t end = std::min(text.find('/'), text.size());
  out.predicted = end < text.size() ? text.substr(end + 1, text.find('/', end + 1) - end - 1)
                                    : args.text("mtp-hybrid-override-pattern");
  out.modules = static_cast<int>(std::count(text.begin(), text.end(), '/'));
  if (out.modules == 0 && !out.predicted.empty())
    out.modules = static_cast<int>(std::clamp<std::int64_t>(args.integer("mtp-num-layers", 1), 0, 100));
  out.segments.push_back(0);
  for (const char letter : text.substr(0, end)) {
    if (letter == '|') {
      out.segments.push_back(0);
      continue;
    }
    out.layers += letter;
    ++out.segments.back();
  }
  return out;
}

std::optional<Error> judge(const MegatronArgs& args, const HybridPattern& pattern) {
  const char* flag = hybrid_flag(args);
  const std::string all = pattern.layers + pattern.predicted;
  if (pattern.layers.empty() || all.size() > kMostLetters) return bad_pattern(args, flag, "names no layers");
  if (const std::size_t other = all.find_first_not_of(kLetters); other != std::string::npos)
    return bad_pattern(args, flag,
                       fmt::format("has a layer `{}`, which is none of Mamba (M), Gated DeltaNet (G), attention "
                                   "(*), feed-forward (-) and experts (E)",
                                   yaml::printable(std::string(1, all[other]))));
  if (const auto depth = args.integer("num-layers");
      depth && *depth != static_cast<std::int64_t>(pattern.layers.size()))
    return bad_pattern(args, flag, fmt::format("has {} layers, and `--num-layers` {}", pattern.layers.size(), *depth));
  if (all.find('E') != std::string::npos && !args.has("num-experts"))
    return bad_pattern(args, flag, "has layers of experts, and `--num-experts` is missing");
  // Forks build other layers behind these letters: Qwen3-Next has its scans under M and its experts under -.
  if (all.find('E') == std::string::npos && args.has("num-experts"))
    return bad_pattern(args, flag, "has no layer of experts, and `--num-experts` states some");
  return std::nullopt;
}

void put_hybrid_layers(const MegatronArgs& args, const HybridPattern& pattern, const MoeShape& moe, Model& model) {
  const Layer whole = model.kinds.front();
  model.kinds.clear(), model.layers.clear();
  const auto kind = [&](char letter) { return kind_of(model, layer_of(letter, args, whole, moe, model.hidden)); };
  for (const char letter : pattern.layers) model.layers.push_back(kind(letter));
  if (pattern.modules == 0 || pattern.predicted.empty()) return;
  const bool repeated = args.has("mtp-use-repeated-layer");
  model.mtp = {.depth = repeated ? 1 : pattern.modules, .passes = repeated ? pattern.modules : 1};
  for (const char letter : pattern.predicted) model.mtp.kinds.push_back(kind(letter));
}

}  // namespace plan::megatron
