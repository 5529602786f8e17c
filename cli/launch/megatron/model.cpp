// The model that Megatron-LM's arguments describe. Tested by tests/launch/files_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/launch/megatron/attention.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "formulas/layer_kinds.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::int64_t kMostLayers = 10'000, kMostWidth = 100'000'000;

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
          .router_bias = !args.has("disable-bias-linear"),  // since core 0.15
          .score_bias = args.has("moe-router-enable-expert-bias"),
          .shared_gate = args.has("moe-shared-expert-gate"),
          .latent = args.integer("moe-latent-size", 0)};
}

/// Kinds that no layer has go; the first layer's kind comes first.
void tidy(Model& model) {
  const std::vector<Layer> all = std::exchange(model.kinds, {});
  for (int& layer : model.layers) layer = kind_of(model, all[static_cast<std::size_t>(layer)]);
}

/// Whether two layers have the same heads, whatever else their attention has.
bool same_heads(const Layer& a, const Layer& b) {
  if (a.mixer == Mixer::Attention)
    return a.attention.heads == b.attention.heads && a.attention.kv_heads == b.attention.kv_heads &&
           a.attention.head_dim == b.attention.head_dim;
  return a.mixer != Mixer::Latent || (a.latent.heads == b.latent.heads && a.latent.kv_rank == b.latent.kv_rank &&
                                      a.latent.q_rank == b.latent.q_rank);
}

bool same_mixer(const Layer& a, const Layer& b) {
  if (a.mixer != b.mixer || !same_heads(a, b)) return false;
  if (a.mixer == Mixer::Attention)
    return a.attention.window == b.attention.window && a.attention.output_gate == b.attention.output_gate;
  if (a.mixer == Mixer::Latent) return a.latent.index_heads == b.latent.index_heads;
  Layer one, other;  // of any other mixer all of its shape
  mixer_row(a.mixer).part.put(one, a);
  mixer_row(b.mixer).part.put(other, b);
  return one == other;
}

bool same_feed_forward(const Layer& a, const Layer& b) {
  if (a.ffn != b.ffn) return false;
  if (a.ffn == Ffn::Dense) return a.dense.width == b.dense.width && a.dense.gated == b.dense.gated;
  return a.ffn != Ffn::Moe ||
         (a.moe.experts == b.moe.experts && a.moe.top_k == b.moe.top_k && a.moe.expert_width == b.moe.expert_width &&
          a.moe.shared_width == b.moe.shared_width && a.moe.latent == b.moe.latent);
}

bool same_model_shape(const Model& a, const Model& b) {
  return layer_by_layer(a, b, [](const Layer& one, const Layer& other) {
    return same_mixer(one, other) && same_feed_forward(one, other);
  });
}

/// Whether flags that describe the usual layers describe `named` as far as they can: its sizes, its feed-forwards and,
/// where a layer of both has attention, its heads.
bool agrees(const Model& described, const Model& named) {
  return layer_by_layer(described, named, [](const Layer& one, const Layer& other) {
    return same_feed_forward(one, other) && (one.mixer != other.mixer || same_heads(one, other));
  });
}

/// Whether a preset's text has the widths of a model. Parsing takes time, and most presets have others.
bool may_have_widths(std::string_view text, const Model& model) {
  const auto states = [&](std::string_view key, std::int64_t number) {
    const std::string line = fmt::format("{}: {}", key, number);
    for (std::size_t at = text.find(line); at != std::string_view::npos; at = text.find(line, at + 1))
      if (const std::size_t end = at + line.size(); end == text.size() || text[end] < '0' || text[end] > '9')
        return true;
    return false;
  };
  return states("hidden", model.hidden) && std::all_of(model.kinds.begin(), model.kinds.end(), [&](const Layer& kind) {
           return kind.ffn == Ffn::Dense ? states("width", kind.dense.width)
                                         : kind.ffn != Ffn::Moe || states("expert_width", kind.moe.expert_width);
         });
}

/// Presets of the same shape, those with the stated vocabulary (or padded to it) first.
std::vector<Model> presets_like(const Model& model) {
  const StoreOptions store = StoreOptions::from_environment();
  std::vector<Model> out;
  for (const PresetEntry& entry : list_presets(PresetKind::Model, store)) {
    if (!may_have_widths(entry.text, model)) continue;
    Result<Model> preset = parse_model(entry);
    if (!preset || !same_model_shape(model, *preset)) continue;
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

/// The model of the checkpoint that slime's plug-ins read their layers from: they take its config.json, of which the
/// name says enough. Folders in front of it may be known on the machine alone.
std::optional<NamedModel> model_of_checkpoint(const MegatronArgs& args) {
  std::string path = args.text("hf-checkpoint");
  while (path.ends_with('/')) path.pop_back();
  const std::string name(base_name(path));
  if (name.empty() || name.find('$') != std::string::npos) return std::nullopt;
  return model_named(name);
}

/// The layers of a specification of one's own are those of the checkpoint that it reads, where all that flags say of
/// the model agrees with that.
std::optional<Model> specified_model(const MegatronArgs& args, const Model& described, std::vector<Note>& notes) {
  if (!args.has("spec") || args.has("experimental-attention-variant")) return std::nullopt;
  const std::optional<NamedModel> found = model_of_checkpoint(args);
  if (!found || !agrees(described, found->model)) return std::nullopt;
  Model model = found->model;
  if (described.vocab > 0) model.vocab = described.vocab;
  model.tied = described.tied, model.dropout = described.dropout, model.default_seq = described.default_seq;
  model.mtp = described.mtp.depth > 0 && model.mtp.depth > 0 ? model.mtp : Mtp{};
  notes.push_back({kSpecOfCheckpoint, fmt::format("{}: `--spec {}`: layers as {} has them, which `--hf-checkpoint` "
                                                  "names",
                                                  args.where("spec"), yaml::printable(args.text("spec")), model.name)});
  return model;
}

/// The published model that a tokenizer's name gives away.
std::optional<Model> model_of_tokenizer(const MegatronArgs& args) {
  const auto named = [](std::string_view name) {
    const std::optional<NamedModel> found = model_named(name);
    return found ? std::optional(found->model) : std::nullopt;
  };
  if (args.text("vocab-file").find("20B_tokenizer") != std::string::npos) return named("gpt-neox-20b");
  for (const char* flag : {"tokenizer-model", "tokenizer-name-or-path", "hf-checkpoint", "tokenizer-type", "load"}) {
    if (std::string_view(flag) == "load" && !args.has("patch-tokenizer-type")) continue;  // Pai's lies beside weights
    std::string name = args.text(flag);
    if (name.ends_with("/tokenizer.model") || name.ends_with("/tokenizer.json"))  // the folder is the model's
      name.resize(name.rfind('/'));
    if (name.empty() || name.find('$') != std::string::npos) continue;
    if (std::optional<Model> found = named(name)) return found;
  }
  return std::nullopt;
}

/// GPT-2's own words, which the tokenizer of that name has unless it is given another file of them.
constexpr std::int64_t kGpt2Words = 50257;

std::int64_t vocabulary_of_tokenizer(const MegatronArgs& args) {
  const std::string type = args.text("tokenizer-type");
  if (type == "GPT2BPETokenizer" || args.text("vocab-file").find("gpt2-vocab") != std::string::npos) return kGpt2Words;
  const std::optional<Model> model = model_of_tokenizer(args);
  return model ? model->vocab : 0;
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
  megatron::put_attention(args, model.hidden, layer);
  const std::int64_t ffn = ffn_width(args, model.hidden);
  layer.dense = {.width = ffn, .gated = is_gated(args), .bias = !args.has("disable-bias-linear")};
  model.kinds = {layer};
  if (pattern) {
    megatron::put_hybrid_layers(args, *pattern, experts(args, ffn), model);
  } else if (args.has("num-experts")) {
    const auto moe = megatron::marked_layers(args.text("moe-layer-freq"), model.layers.size(), true);
    if (!moe)
      return fail({"bad_model", fmt::format("{}: `--moe-layer-freq {}` does not name {} layers",
                                            args.where("moe-layer-freq"), args.text("moe-layer-freq"), depth)});
    Layer sparse = layer;
    sparse.ffn = Ffn::Moe, sparse.dense = {}, sparse.moe = experts(args, ffn);
    model.kinds.push_back(sparse);
    for (std::size_t i = 0; i < moe->size(); ++i) model.layers[i] = (*moe)[i] ? 1 : 0;
  }
  megatron::put_windows(args, model);
  if (!pattern) {
    if (std::optional<Error> mistake = megatron::put_linear_attention(args, model)) return fail(std::move(*mistake));
    tidy(model);
  }
  constexpr std::int64_t kMostPredicted = 99;
  const std::int64_t depth_mtp = pattern ? 0 : args.integer("mtp-num-layers", 0);
  if (depth_mtp > kMostPredicted)
    return fail({"bad_model", fmt::format("{}: `--mtp-num-layers {}`: plan counts {} MTP layers at most",
                                          args.where("mtp-num-layers"), depth_mtp, kMostPredicted)});
  if (depth_mtp > 0)
    model.mtp = {.depth = args.has("mtp-use-repeated-layer") ? 1 : static_cast<int>(depth_mtp),
                 .passes = args.has("mtp-use-repeated-layer") ? static_cast<int>(depth_mtp) : 1,
                 .kinds = {megatron::predicted_kind(args, model)}};
  model.dropout = args.has("hidden-dropout") ? std::atof(args.text("hidden-dropout").c_str()) : 0.1;
  model.vocab = args.integer("vocab-size", args.integer("padded-vocab-size", vocabulary_of_tokenizer(args)));
  model.default_seq = args.integer("seq-length", 4096);
  model.name = fmt::format("{}-layer model", depth);
  return model;
}

/// Of models of one shape the one whose tokenizer the job has, else the first.
const Model& twin_of(const MegatronArgs& args, const std::vector<Model>& twins) {
  const std::optional<Model> tokenizer = twins.size() > 1 ? model_of_tokenizer(args) : std::nullopt;
  const auto found = std::find_if(twins.begin(), twins.end(),
                                  [&](const Model& twin) { return tokenizer && twin.name == tokenizer->name; });
  return found != twins.end() && found->vocab == twins.front().vocab ? *found : twins.front();
}

/// What the rows of a model's embeddings are for: words alone or places too, and whether the output layer has its own.
bool same_embeddings(const Model& a, const Model& b) {
  return a.tied == b.tied && (a.positions > 0) == (b.positions > 0);
}

std::string embeddings_of(const Model& model) {
  return fmt::format("{}, {}", model.tied ? "tied to the output layer" : "an output layer of its own",
                     model.positions > 0 ? "positions learned" : "no positions learned");
}

/// A model asked for by name counts as it is, also where its layers alone are those of the script.
void tell_embeddings(const MegatronArgs& args, const Model& described, const LaunchFacts& facts,
                     std::vector<Note>& notes) {
  if (!facts.model || !facts.asked || same_embeddings(described, *facts.model)) return;
  notes.push_back(
      {"model_differs", fmt::format("{}: embeddings as the script has them ({}) are not those of {} ({}): {} counts",
                                    args.where("num-layers"), embeddings_of(described), facts.model->name,
                                    embeddings_of(*facts.model), facts.model_where)});
}

Error vocabulary_not_stated(const Model& described, std::vector<Model> twins) {
  Error error{"vocabulary_not_stated", "the vocabulary is not stated: the tokenizer decides it"};
  if (std::any_of(twins.begin(), twins.end(), [&](const Model& twin) { return same_embeddings(described, twin); }))
    std::erase_if(twins, [&](const Model& twin) { return !same_embeddings(described, twin); });
  std::string names;
  for (std::size_t i = 0; i < twins.size() && i < 4; ++i) names += (names.empty() ? "" : ", ") + twins[i].name;
  if (!names.empty()) error.facts.push_back(fmt::format("layers of the same shape: {}", names));
  error.help.push_back(fmt::format("add `--vocab-size N` to the script, or name the model: `--model {}`",
                                   twins.size() == 1 ? twins.front().name : "NAME"));
  return error;
}

/// slime's and miles's scripts may leave the flags of the model to a program that prints them: it prints those of the
/// checkpoint that the rollout runs.
std::optional<Model> printed_model(const MegatronArgs& args, std::vector<Note>& notes) {
  for (const char* flag : {"num-layers", "hidden-size", "num-attention-heads"})
    if (args.has(flag)) return std::nullopt;
  const std::optional<NamedModel> found = args.has("actor-num-nodes") ? model_of_checkpoint(args) : std::nullopt;
  if (!found) return std::nullopt;
  notes.push_back(
      {"model_of_checkpoint", fmt::format("{}: no flag in the script describes the model: layers as {} has them, which "
                                          "`--hf-checkpoint` names",
                                          args.where("hf-checkpoint"), found->model.name)});
  return found->model;
}

}  // namespace

std::optional<Error> not_a_decoder(const MegatronArgs& args) {
  for (const char* flag : {"encoder-num-layers", "decoder-num-layers", "decoder-seq-length", "encoder-seq-length",
                           "bert-no-binary-head", "patch-dim", "img-h"})
    if (args.has(flag))
      return Error{"not_a_decoder", fmt::format("{}: `--{}` belongs to a model that is no decoder, which plan does not "
                                                "model",
                                                args.where(flag), flag)};
  return std::nullopt;
}

Result<Model> megatron_model(const MegatronArgs& args, const LaunchFacts& facts, std::vector<Note>& notes) {
  if (!facts.model && megatron::hybrid_flag(args) == nullptr)
    if (std::optional<Model> printed = printed_model(args, notes)) return *std::move(printed);
  if (facts.model && !args.has("num-layers") && megatron::hybrid_flag(args) == nullptr) return named_model(args, facts);
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
  if (!facts.model)
    if (std::optional<Model> specified = specified_model(args, model, notes)) return *std::move(specified);
  if (facts.model && facts.asked && !same_model_shape(model, *facts.model)) {
    notes.push_back(
        {"model_differs", fmt::format("{} and {} describe different models; {} counts",
                                      args.where(hybrid != nullptr ? std::string_view(hybrid) : "num-layers"),
                                      facts.model_where, facts.model_where)});
    return *facts.model;
  }
  const std::vector<Model> twins = presets_like(model);
  std::optional<Model> preset = facts.model && same_model_shape(model, *facts.model) ? facts.model : std::nullopt;
  if (!preset && !twins.empty() && model.vocab > 0 && same_vocabulary(model.vocab, twins.front().vocab))
    preset = twin_of(args, twins);
  if (facts.model && !same_model_shape(model, *facts.model))
    notes.push_back({"model_differs",
                     fmt::format("{} and the script describe different models; the script counts", facts.model_where)});
  if (preset) {
    model.name = preset->name;
    model.default_global_batch = preset->default_global_batch;
    if (model.mtp.depth > 0) model.mtp.own_embedding = preset->mtp.own_embedding;
    if (model.vocab <= 0) model.vocab = preset->vocab;
  }
  if (model.vocab <= 0) return fail(vocabulary_not_stated(model, twins));
  tell_embeddings(args, model, facts, notes);
  return described;
}

void tell_words(const MegatronArgs& args, LaunchJob& job) {
  const std::string file = args.text("vocab-file");
  if (!job.model || job.model->vocab != kGpt2Words || args.has("vocab-size") || args.has("padded-vocab-size")) return;
  if (args.text("tokenizer-type") != "GPT2BPETokenizer" || file.empty() || file == "null") return;
  for (const char* own : {"gpt2", "gpt-2", "gpt_2"})
    if (lowered(file).find(own) != std::string::npos) return;
  assume(job, "vocab", fmt::format("{}", kGpt2Words),
         fmt::format("GPT-2's own; `--vocab-file {}` may hold other words, of which `--vocab-size` tells",
                     yaml::printable(file)));
}

}  // namespace plan
