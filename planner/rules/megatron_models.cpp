// Which models Megatron trains: those that Megatron-LM's flags describe (megatron/training/arguments.py and
// transformer_config.py of core 0.20: pretrain_gpt.py has one attention and one expert layer for the whole model,
// pretrain_mamba.py a letter for each layer), and those for which Megatron-Bridge has layers of its own
// (src/megatron/bridge/models of August 2026: gemma, olmoe, minimax_m2). A fork may build others; where a launch file
// states the model, nobody asks here. Tested by tests/frameworks/framework_models_test.cpp.
#include "planner/rules/megatron_models.hpp"

#include <algorithm>
#include <string>

#include "formulas/layer_rows.hpp"
#include "planner/rules/rule_tables.hpp"

namespace plan {
namespace {

/// The shape of a layer's mixer, without what may differ from layer to layer: its window, and who chooses its keys.
Layer mixer_of(const Layer& layer) {
  Layer mixer;
  mixer_row(layer.mixer).part.put(mixer, layer);
  mixer.attention.window = 0;
  mixer.latent.index_heads = mixer.latent.index_dim = 0;
  return mixer;
}

/// Is it an attention that flags describe?
bool attends(const Layer& mixer) { return mixer.mixer == Mixer::Attention || mixer.mixer == Mixer::Latent; }

/// All layers have one attention, but for those that scan, which are Gated DeltaNet of one shape. A search asks often:
/// nothing is allocated.
bool mixes_as_flags_say(const Model& model) {
  const Layer *attending = nullptr, *scanning = nullptr;
  for (const Layer& kind : model.kinds) {
    if (kind.mixer != Mixer::DeltaNet && !attends(kind)) return false;
    const Layer*& first = kind.mixer == Mixer::DeltaNet ? scanning : attending;
    if (first == nullptr) first = &kind;
    if (first != &kind && mixer_of(*first) != mixer_of(kind)) return false;
  }
  return attending != nullptr;
}

/// Every layer has a letter, each letter one shape, and some layer attention, whose heads flags want.
bool has_letters(const Model& model) {
  std::string found;
  for (const Layer& kind : model.kinds) found += hybrid_letter(kind);
  std::sort(found.begin(), found.end());
  return found.find('\0') == std::string::npos && found.find('*') != std::string::npos &&
         std::adjacent_find(found.begin(), found.end()) == found.end();
}

/// The one layer of a prediction module is like the model's last, and chooses its keys itself.
bool predicts_with_last(const Model& model) {
  const auto kind = [&](int at) {
    Layer layer = model.kinds[static_cast<std::size_t>(at)];
    layer.latent.index_heads = layer.latent.index_dim = 0;
    return layer;
  };
  return model.mtp.kinds.size() == 1 &&
         (model.mtp.kinds.front() == model.layers.back() || kind(model.mtp.kinds.front()) == kind(model.layers.back()));
}

bool any_kind(const Model& model, bool (*has)(const Layer&)) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), has);
}

bool norms_whole_heads(const Layer& layer) { return layer.attention.qk_norm == QkNorm::Full; }

/// Megatron-Bridge's own layers, by what of the model no flag describes.
bool bridge_builds(const Model& model) {
  const bool moe = model.moe();
  const auto is_gemma = [](const Layer& l) { return l.norms == 4 && l.ffn == Ffn::Dense && l.dense.gated; };
  const bool gemma = model.tied && std::all_of(model.kinds.begin(), model.kinds.end(), is_gemma);
  const auto whole = [](const Layer& l) { return l.norms == 2 && l.mixer == Mixer::Attention; };
  const bool norms_of_all = moe && std::all_of(model.kinds.begin(), model.kinds.end(), whole);  // OLMoE, MiniMax-M2
  return (gemma || norms_of_all) && !is_hybrid(model) && mixes_as_flags_say(model) && !model.embedding_norm &&
         !model.head_bias && !any_kind(model, [](const Layer& l) { return l.moe.latent > 0; });
}

}  // namespace

bool is_hybrid(const Model& model) {
  return any_kind(model, [](const Layer& kind) {
    return kind.mixer == Mixer::None || kind.ffn == Ffn::None || kind.mixer == Mixer::Mamba2;
  });
}

char hybrid_letter(const Layer& layer) {
  constexpr std::int64_t kTaps = 4;  // of Mamba-2's convolution, which no flag states
  if (layer.norms != 1 || (layer.mixer == Mixer::None) == (layer.ffn == Ffn::None)) return 0;
  if (layer.ffn != Ffn::None) return layer.ffn == Ffn::Moe ? 'E' : '-';
  if (layer.mixer == Mixer::Attention) return layer.attention.window == 0 ? '*' : '\0';
  if (layer.mixer == Mixer::Mamba2) return layer.mamba.conv == kTaps ? 'M' : '\0';
  return layer.mixer == Mixer::DeltaNet ? 'G' : '\0';
}

SharedIndex shared_index(const Model& model) {
  const auto uses_others = [](const Layer& kind) {
    return kind.mixer == Mixer::Latent && kind.latent.index_top_k > 0 && kind.latent.index_heads == 0;
  };
  if (!any_kind(model, uses_others)) return {};
  const auto shares = [&](int layer) {
    return uses_others(model.kinds[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(layer)])]);
  };
  const int depth = model.depth();
  int first = 0;
  while (first < depth && !shares(first)) ++first;
  if (first == depth) return {};
  if (first == 0) return {0, 0};  // whose keys would it use?
  int next = first;
  while (next < depth && shares(next)) ++next;
  // The last layer before `first` that chooses is the offset-th, counted from one; a period ends with one that does.
  const SharedIndex index{next - first + 1, first};
  for (int layer = 0; layer < depth; ++layer)
    if (shares(layer) != (std::max(layer + 1 - index.offset, 0) % index.period != 0)) return {0, 0};
  return index;
}

std::string_view megatron_flags_lack(const Model& model) {
  if (is_hybrid(model)) return has_letters(model) ? "" : "layers that no `--hybrid-layer-pattern` spells";
  if (!mixes_as_flags_say(model) || shared_index(model).period == 0)
    return "attention that differs from layer to layer";
  if (model.mtp.depth > 0 && !predicts_with_last(model)) return "prediction layers that are none like its last one";
  if (any_kind(model, [](const Layer& l) { return l.norms != 2; })) return rule::kOtherNorms;
  if (any_kind(model, norms_whole_heads)) return rule::kNormsOfAllHeads;
  if (any_kind(model, [](const Layer& l) { return l.moe.latent > 0; })) return "experts on a narrower width";
  if (model.embedding_norm) return rule::kEmbeddingNorm;
  return model.head_bias ? rule::kHeadBias : std::string_view();
}

Model as_megatron_builds(Model model) {
  model.norm_bias = model.norm_weights = true;
  const bool biases =
      any_kind(model, [](const Layer& l) { return l.mixer == Mixer::Attention && l.attention.out_bias; });
  for (Layer& kind : model.kinds) {
    if (kind.mixer == Mixer::Attention) {
      kind.attention.qkv_bias = biases || kind.attention.qkv_bias;  // `--add-qkv-bias` gives it alone
      kind.attention.out_bias = biases;
    }
    if (kind.ffn == Ffn::Dense) kind.dense.bias = biases;
    if (kind.ffn == Ffn::Moe) kind.moe.expert_bias = kind.moe.router_bias = biases;
  }
  return model;
}

std::string_view megatron_lacks(const Model& model) {
  const std::string_view lacking = megatron_flags_lack(model);
  return lacking.empty() || bridge_builds(model) ? std::string_view() : lacking;
}

}  // namespace plan
