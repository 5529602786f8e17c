// The model that Megatron-LM's arguments describe. Tested by tests/launch/files_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/megatron.hpp"
#include "cli/launch/megatron_hybrid.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr std::int64_t kMostLayers = 10'000, kMostWidth = 100'000'000;

/// `([0]*3+[1]*58)`, `[0,1,1]`, `2` (every second layer): 1 for layers with experts. Nothing if unreadable.
std::optional<std::vector<bool>> moe_layers(const std::string& text, std::size_t depth) {
  std::vector<bool> out;
  if (text.find('[') == std::string::npos) {
    const long long freq = text.empty() ? 1 : std::atoll(text.c_str());
    if (freq == 0) return std::nullopt;
    const auto every = static_cast<std::size_t>(std::abs(freq));  // `i % -1 == 0` holds for every layer
    for (std::size_t i = 0; i < depth; ++i) out.push_back(i % every == 0);
    return out;
  }
  std::size_t at = 0;
  while (at < text.size() && out.size() <= depth) {
    if (text[at] != '[') {
      ++at;
      continue;
    }
    std::vector<bool> items;
    for (++at; at < text.size() && text[at] != ']'; ++at)
      if (text[at] == '0' || text[at] == '1') items.push_back(text[at] == '1');
    ++at;
    std::size_t times = 1;
    if (at < text.size() && text[at] == '*') times = static_cast<std::size_t>(std::atoll(text.c_str() + at + 1));
    if (times > depth) return std::nullopt;
    for (std::size_t i = 0; i < times && out.size() <= depth; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  if (out.size() != depth) return std::nullopt;
  return out;
}

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
  return shape;
}

/// Megatron's own defaults where a rank is not given.
LatentShape latent(const MegatronArgs& args) {
  return {.heads = args.integer("num-attention-heads", 1),
          .q_rank = args.integer("q-lora-rank", 0),
          .kv_rank = args.integer("kv-lora-rank", 32),
          .nope_dim = args.integer("qk-head-dim", 128),
          .rope_dim = args.integer("qk-pos-emb-head-dim", 64),
          .value_dim = args.integer("v-head-dim", 128)};
}

/// SwiGLU, or GELU with a gate, which the parser knows since core 0.15.
bool is_gated(const MegatronArgs& args) { return args.has("swiglu") || args.has("quick-geglu"); }

std::int64_t ffn_width(const MegatronArgs& args, std::int64_t hidden) {
  if (const auto stated = args.integer("ffn-hidden-size")) return *stated;
  return args.has("swiglu") ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden;
}

MoeShape experts(const MegatronArgs& args, std::int64_t ffn) {
  return {.experts = args.integer("num-experts", 1),
          .top_k = args.integer("moe-router-topk", 2),
          .expert_width = args.integer("moe-ffn-hidden-size", ffn),
          .shared_width = args.integer("moe-shared-expert-intermediate-size", 0),
          .gated = is_gated(args),
          .expert_bias = !args.has("disable-bias-linear"),
          .score_bias = args.has("moe-router-enable-expert-bias"),
          .shared_gate = args.has("moe-shared-expert-gate"),
          .latent = args.integer("moe-latent-size", 0)};
}

/// `--window-size 127,0` as tokens that a query sees, and which layers have it.
void windows(const MegatronArgs& args, Model& model) {
  const std::string text = args.text("window-size");
  const std::size_t digit = text.find_first_of("0123456789");
  if (digit == std::string::npos) return;
  const std::int64_t window = std::atoll(text.c_str() + digit) + 1;
  const std::string skip = args.text("window-attn-skip-freq");
  const std::size_t depth = model.layers.size();
  std::vector<bool> windowed(depth, true);
  if (skip.find('[') != std::string::npos) {
    if (const auto listed = moe_layers(skip, depth)) windowed = *listed;
  } else if (const long long every = std::atoll(skip.c_str()); every > 0) {
    for (std::size_t i = 0; i < depth; ++i) windowed[i] = (i + 1) % static_cast<std::size_t>(every) != 0;
  }
  const std::size_t kinds = model.kinds.size();
  for (std::size_t k = 0; k < kinds; ++k) {
    Layer narrow = model.kinds[k];
    narrow.attention.window = window;
    model.kinds.push_back(narrow);
  }
  for (std::size_t i = 0; i < depth; ++i)
    if (windowed[i]) model.layers[i] += static_cast<int>(kinds);
}

/// Kinds that no layer has go; the first layer's kind comes first.
void tidy(Model& model) {
  std::vector<Layer> kinds;
  for (int& layer : model.layers) {
    const Layer& kind = model.kinds[static_cast<std::size_t>(layer)];
    auto found = std::find(kinds.begin(), kinds.end(), kind);
    if (found == kinds.end()) found = kinds.insert(found, kind);
    layer = static_cast<int>(found - kinds.begin());
  }
  model.kinds = std::move(kinds);
}

bool same_shape(const Model& a, const Model& b) {
  if (a.hidden != b.hidden || a.layers.size() != b.layers.size()) return false;
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const Layer& left = a.kinds[static_cast<std::size_t>(a.layers[i])];
    const Layer& right = b.kinds[static_cast<std::size_t>(b.layers[i])];
    if (left.mixer != right.mixer || left.ffn != right.ffn) return false;
    if (left.mixer == Mixer::Attention &&
        (left.attention.heads != right.attention.heads || left.attention.kv_heads != right.attention.kv_heads ||
         left.attention.head_dim != right.attention.head_dim || left.attention.window != right.attention.window))
      return false;
    if (left.mixer == Mixer::Latent &&
        (left.latent.heads != right.latent.heads || left.latent.kv_rank != right.latent.kv_rank ||
         left.latent.q_rank != right.latent.q_rank))
      return false;
    if (left.mamba != right.mamba || left.moe.latent != right.moe.latent) return false;
    if (left.ffn == Ffn::Dense && (left.dense.width != right.dense.width || left.dense.gated != right.dense.gated))
      return false;
    if (left.ffn == Ffn::Moe &&
        (left.moe.experts != right.moe.experts || left.moe.top_k != right.moe.top_k ||
         left.moe.expert_width != right.moe.expert_width || left.moe.shared_width != right.moe.shared_width))
      return false;
  }
  return true;
}

/// Presets of the same shape, those with the stated vocabulary (or padded to it) first.
std::vector<Model> presets_like(const Model& model) {
  const StoreOptions store = StoreOptions::from_environment();
  std::vector<Model> out;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, store)) {
    if (entry.text.find(fmt::format("hidden: {}", model.hidden)) == std::string::npos) continue;  // parsing takes time
    Result<Model> preset = parse_model(entry);
    if (!preset || !same_shape(model, *preset)) continue;
    out.push_back(std::move(*preset));
  }
  std::stable_partition(out.begin(), out.end(), [&](const Model& one) { return one.vocab == model.vocab; });
  return out;
}

/// A vocabulary is padded to a multiple of 128 for each tensor-parallel rank; further apart it is another's.
bool same_vocabulary(std::int64_t stated, std::int64_t preset) {
  constexpr std::int64_t kMostPadding = 4096;
  return stated <= 0 || (stated >= preset && stated - preset < kMostPadding);
}

/// Vocabulary that a tokenizer's name gives away: a published model's.
std::int64_t vocabulary_of_tokenizer(const MegatronArgs& args) {
  const std::string type = args.text("tokenizer-type");
  if (type == "GPT2BPETokenizer" || args.text("vocab-file").find("gpt2-vocab") != std::string::npos) return 50257;
  if (args.text("vocab-file").find("20B_tokenizer") != std::string::npos)
    if (const std::optional<NamedModel> found = model_named("gpt-neox-20b")) return found->model.vocab;
  for (const char* flag : {"tokenizer-model", "tokenizer-name-or-path", "hf-checkpoint", "tokenizer-type"}) {
    std::string name = args.text(flag);
    if (name.ends_with("/tokenizer.model") || name.ends_with("/tokenizer.json"))  // the folder is the model's
      name.resize(name.rfind('/'));
    if (name.empty() || name.find('$') != std::string::npos) continue;
    if (const std::optional<NamedModel> found = model_named(name)) return found->model.vocab;
  }
  return 0;
}

Errors judge(const MegatronArgs& args, const Model& model, bool lists_layers) {
  Errors errors;
  const auto wrong = [&](std::string_view flag, std::string why) {
    const std::string where = args.where(flag);
    errors.push_back(
        {"bad_model",
         where.empty() ? fmt::format("`--{}` {}", flag, why) : fmt::format("{}: `--{}` {}", where, flag, why),
         {},
         {}});
  };
  for (const char* flag : {"num-layers", "hidden-size", "num-attention-heads"})
    if (!args.has(flag) && !(lists_layers && std::string_view(flag) == "num-layers")) wrong(flag, "is missing");
  if (!errors.empty()) return errors;
  const std::int64_t heads = args.integer("num-attention-heads", 0);
  if (model.hidden < 1 || model.hidden > kMostWidth) wrong("hidden-size", "must be a positive number");
  if (heads < 1 || heads > kMostWidth)
    wrong("num-attention-heads", "must be a positive number");
  else if (!args.has("kv-channels") && model.hidden % heads != 0)
    wrong("hidden-size", fmt::format("{} is no multiple of {} heads", model.hidden, heads));
  return errors;
}

/// The model that was named, with the prediction modules that the flags state where nobody asked for it by name.
Model named_model(const MegatronArgs& args, const LaunchFacts& facts) {
  Model named = *facts.model;
  const std::optional<std::int64_t> mtp = args.integer("mtp-num-layers");
  if (mtp && *mtp >= 0 && *mtp < 100 && !facts.asked) {
    const bool repeated = *mtp > 0 && (named.mtp.passes > 1 || args.has("mtp-use-repeated-layer"));
    named.mtp.depth = repeated ? 1 : static_cast<int>(*mtp);
    named.mtp.passes = repeated ? static_cast<int>(*mtp) : 1;
    if (*mtp > 0 && named.mtp.kinds.empty()) named.mtp.kinds = {named.layers.back()};
  }
  return named;
}

/// The first flag of a model that is no decoder; null: none.
const char* other_than_decoder(const MegatronArgs& args) {
  for (const char* flag : {"encoder-num-layers", "decoder-num-layers", "decoder-seq-length", "encoder-seq-length",
                           "bert-no-binary-head", "patch-dim", "img-h"})
    if (args.has(flag)) return flag;
  return nullptr;
}

/// Layers and what lies around them, as the flags say.
Result<Model> described_model(const MegatronArgs& args, const std::optional<megatron::HybridPattern>& pattern) {
  Model model;
  const std::int64_t depth =
      pattern ? static_cast<std::int64_t>(pattern->layers.size()) : args.integer("num-layers", 0);
  model.hidden = args.integer("hidden-size", 0);
  if (Errors errors = judge(args, model, pattern.has_value()); !errors.empty()) return fail(std::move(errors));
  if (depth < 1 || depth > kMostLayers)
    return fail(
        {"bad_model", fmt::format("{}: `--num-layers` must be 1 to {}", args.where("num-layers"), kMostLayers)});
  model.layers.assign(static_cast<std::size_t>(depth), 0);
  model.norm = args.text("normalization") == "RMSNorm" ? Norm::Rms : Norm::Layer;
  model.tied = !args.has("untie-embeddings-and-output-weights");
  const std::string position = args.text("position-embedding-type");
  const bool learned = (position.empty() || position == "learned_absolute") &&
                       !args.has("use-rotary-position-embeddings") && !args.has("no-position-embedding") &&
                       !args.has("multi-latent-attention");
  if (learned) model.positions = args.integer("max-position-embeddings", 0);
  Layer layer;
  if (args.has("multi-latent-attention"))
    layer.mixer = Mixer::Latent, layer.latent = latent(args);
  else
    layer.attention = attention(args, model.hidden);
  const std::int64_t ffn = ffn_width(args, model.hidden);
  layer.dense = {.width = ffn, .gated = is_gated(args), .bias = !args.has("disable-bias-linear")};
  model.kinds = {layer};
  if (pattern) {
    megatron::put_hybrid_layers(args, *pattern, experts(args, ffn), model);
  } else if (args.has("num-experts")) {
    const auto moe = moe_layers(args.text("moe-layer-freq"), model.layers.size());
    if (!moe)
      return fail({"bad_model", fmt::format("{}: `--moe-layer-freq {}` does not name {} layers",
                                            args.where("moe-layer-freq"), args.text("moe-layer-freq"), depth)});
    Layer sparse = layer;
    sparse.ffn = Ffn::Moe, sparse.dense = {}, sparse.moe = experts(args, ffn);
    model.kinds.push_back(sparse);
    for (std::size_t i = 0; i < moe->size(); ++i) model.layers[i] = (*moe)[i] ? 1 : 0;
  }
  windows(args, model);
  if (!pattern) tidy(model);
  const bool lists_mtp = pattern && !pattern->predicted.empty();
  if (const auto depth_mtp = args.integer("mtp-num-layers");
      !lists_mtp && depth_mtp && *depth_mtp > 0 && *depth_mtp < 100)
    model.mtp = {.depth = args.has("mtp-use-repeated-layer") ? 1 : static_cast<int>(*depth_mtp),
                 .passes = args.has("mtp-use-repeated-layer") ? static_cast<int>(*depth_mtp) : 1,
                 .kinds = {model.layers.back()}};
  model.dropout = args.has("hidden-dropout") ? std::atof(args.text("hidden-dropout").c_str()) : 0.1;
  model.vocab = args.integer("vocab-size", args.integer("padded-vocab-size", vocabulary_of_tokenizer(args)));
  model.default_seq = args.integer("seq-length", 4096);
  model.name = fmt::format("{}-layer model", depth);
  return model;
}

Error vocabulary_not_stated(const std::vector<Model>& twins) {
  Error error{"vocabulary_not_stated", "the vocabulary is not stated: the tokenizer decides it"};
  std::string names;
  for (std::size_t i = 0; i < twins.size() && i < 4; ++i) names += (names.empty() ? "" : ", ") + twins[i].name;
  if (!names.empty()) error.facts.push_back(fmt::format("layers of the same shape: {}", names));
  error.help.push_back(fmt::format("add `--vocab-size N` to the script, or name the model: `--model {}`",
                                   twins.size() == 1 ? twins.front().name : "NAME"));
  return error;
}

}  // namespace

Result<Model> megatron_model(const MegatronArgs& args, const LaunchFacts& facts, std::vector<Note>& notes) {
  if (facts.model && !args.has("num-layers") && megatron::hybrid_flag(args) == nullptr) return named_model(args, facts);
  if (const char* flag = other_than_decoder(args))
    return fail(
        {"not_a_decoder", fmt::format("{}: `--{}` belongs to a model that is no decoder, which plan does not model",
                                      args.where(flag), flag)});
  const std::optional<megatron::HybridPattern> pattern = megatron::hybrid_pattern(args);
  const std::optional<Error> mistake = pattern ? megatron::judge(args, *pattern) : std::nullopt;
  const char* hybrid = megatron::hybrid_flag(args);
  const bool whole = pattern && args.has("hidden-size") && args.has("num-attention-heads");
  if (hybrid != nullptr && facts.model && (mistake || !whole)) return named_model(args, facts);
  if (mistake) return fail(*mistake);
  if (hybrid != nullptr && !pattern)
    return fail({"bad_model",
                 fmt::format("{}: layers of several kinds by `--{}` are not read", args.where(hybrid), hybrid),
                 {},
                 {"name a model that has them with `--model`, or give its config.json with `--from`"}});
  Result<Model> described = described_model(args, pattern);
  if (!described) return described;
  Model& model = *described;
  if (facts.model && facts.asked && !same_shape(model, *facts.model)) {
    notes.push_back(
        {"model_differs", fmt::format("{} and {} describe different models; {} counts",
                                      args.where(hybrid != nullptr ? std::string_view(hybrid) : "num-layers"),
                                      facts.model_where, facts.model_where)});
    return *facts.model;
  }
  const std::vector<Model> twins = presets_like(model);
  std::optional<Model> preset = facts.model && same_shape(model, *facts.model) ? facts.model : std::nullopt;
  if (!preset && !twins.empty() && model.vocab > 0 && same_vocabulary(model.vocab, twins.front().vocab))
    preset = twins.front();
  if (facts.model && !same_shape(model, *facts.model))
    notes.push_back({"model_differs",
                     fmt::format("{} and the script describe different models; the script counts", facts.model_where)});
  if (preset) {
    model.name = preset->name;
    model.default_global_batch = preset->default_global_batch;
    if (model.mtp.depth > 0) model.mtp.own_embedding = preset->mtp.own_embedding;
    if (model.vocab <= 0) model.vocab = preset->vocab;
  }
  if (model.vocab <= 0) return fail(vocabulary_not_stated(twins));
  return described;
}

}  // namespace plan
