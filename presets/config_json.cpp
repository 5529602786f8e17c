// Hugging Face config.json to Model. Tested by
// tests/presets/config_json_test.cpp on one config of every family.
#include "presets/config_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "formulas/absurdity.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/json_config.hpp"
#include "presets/json_syntax.hpp"
#include "presets/reader.hpp"
#include "presets/suggest.hpp"
#include "presets/unmodelled.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostBytes = 4u << 20;
constexpr int kMostDepth = 64;

Error whole_file(const std::string& file, std::string code, std::string message) {
  return {std::move(code), std::move(message), {}, {}, {file, 0, 0, 1, {}}};
}

/// Python writes NaN and Infinity, which JSON has not: outside strings they
/// become null of the same length. Returns the deepest nesting.
int tame(std::string& text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if (c == '}' || c == ']') --depth;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (text.compare(i, word.size(), word) != 0) continue;
      std::string null = "null";
      if (word.size() < null.size()) null = "0";
      null.resize(word.size(), ' ');
      text.replace(i, word.size(), null);
      break;
    }
  }
  return deepest;
}

/// Notes a key that one object has twice, while the parser goes by:
/// nlohmann-json keeps the last without a word.
struct KeysOnce {
  std::vector<std::set<std::string>> open{};
  std::string twice{};

  bool operator()(int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end && !open.empty()) open.pop_back();
    if (event == Event::key && !open.back().insert(value.get<std::string>()).second && twice.empty())
      twice = value.get<std::string>();
    return true;
  }
};

Result<nlohmann::json> parse_json(const std::string& source, const std::string& file) {
  if (source.size() > kMostBytes) return fail(whole_file(file, "too_large", "the file is larger than 4 MiB"));
  if (source.find('\0') != std::string::npos)
    return fail(
        Error{"json_syntax", "a NUL character is not JSON", {}, {}, json_place(source, file, source.find('\0'))});
  std::string text = source;
  if (tame(text) > kMostDepth) return fail(whole_file(file, "json_refused", "the file is nested too deeply"));
  try {
    KeysOnce once;
    nlohmann::json parsed = nlohmann::json::parse(text, std::ref(once));
    if (!once.twice.empty())
      return fail(Error{"duplicate_key",
                        fmt::format("key `{}` is given twice", yaml::printable(once.twice)),
                        {},
                        {"leave one of them out"},
                        json_place(text, file, text.rfind('"' + once.twice + '"'))});
    if (!parsed.is_object()) return fail(whole_file(file, "bad_value", "the file is not one JSON object"));
    return parsed;
  } catch (const nlohmann::json::parse_error& e) {
    return fail(json_syntax_error(e, text, file));
  } catch (const nlohmann::json::exception&) { return fail(whole_file(file, "json_syntax", "not valid JSON")); }
}

std::vector<ModelFamily> all_families() {
  std::vector<ModelFamily> all;
  for (const std::vector<ModelFamily>* families :
       {&llama_families(), &dense_families(), &expert_families(), &mixed_families()})
    all.insert(all.end(), families->begin(), families->end());
  return all;
}

std::optional<ModelFamily> family_called(std::string_view type) {
  for (const ModelFamily& family : all_families())
    if (family.model_type == type) return family;
  return std::nullopt;
}

void unknown_family(JsonConfig& config, std::string_view key, const std::string& type) {
  if (const Unmodelled* row = unmodelled_type(type)) {
    config.error(key, "unsupported", fmt::format("`{}` has {}, which is not modelled", type, row->part));
    return;
  }
  std::vector<std::string> names;
  for (const ModelFamily& family : all_families()) names.emplace_back(family.model_type);
  std::sort(names.begin(), names.end());
  const std::string near = nearest_name(type, names);
  std::vector<std::string> help;
  if (!near.empty()) help.push_back(fmt::format("a family with a similar name exists: `{}`", near));
  help.push_back(fmt::format("families: {}", fmt::join(names, ", ")));
  help.push_back("write the model as a preset: `man 5 plan-preset`");
  config.error(key, "unknown_model_type", fmt::format("no model family `{}` is known", yaml::printable(type)),
               std::move(help));
}

/// The name of a config's file, or of its folder where that is one of a checkpoint: in a cache of the Hub, whose
/// folders are `models--OWNER--NAME/snapshots/COMMIT`, that of the repository.
std::string name_of_file(const std::string& file) {
  std::error_code none;
  const std::filesystem::path path = std::filesystem::absolute(file, none).lexically_normal();
  if (path.filename() != "config.json") return path.stem().string();
  const std::filesystem::path folder = path.parent_path(), above = folder.parent_path();
  if (above.filename() != "snapshots") return folder.filename().string();
  const std::string repository = above.parent_path().filename().string();
  const std::size_t name = repository.rfind("--");
  return name == std::string::npos ? repository : repository.substr(name + 2);
}

/// Repository name without its owner, as far as the config or the folder tells.
std::string name_of(JsonConfig& root, const std::string& file) {
  std::string name = root.text_or("_name_or_path", "");
  while (name.ends_with('/')) name.pop_back();
  if (name.empty() || name.starts_with('/') || name.starts_with('.')) name = name_of_file(file);
  name = std::string(base_name(name));
  for (char& c : name)
    if (std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._").find(c) ==
        std::string_view::npos)
      c = '-';
  return name.empty() || name.size() > 100 ? "model" : name;
}

/// Key of the language model inside a multimodal one, which takes over the
/// outer `tie_word_embeddings`; else empty.
std::string language_model(nlohmann::json& root) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    if (!root.contains(key)) continue;
    const char* tied = "tie_word_embeddings";
    if (root[key].is_object() && !root[key].contains(tied) && root.contains(tied)) root[key][tied] = root[tied];
    return key;
  }
  return {};
}

/// The classes of transformers that the checkpoint names, in a list or as one word.
std::vector<std::string> classes_of(JsonConfig& root) {
  if (root.is_text("architectures")) return {root.text_or("architectures", "")};
  return root.words("architectures");
}

/// The family that the class of a language model is of, `qwen3_moe` of `Qwen3MoeForCausalLM`; null for one that none is
/// called after, and for a class of more than the model, as `LlamaForCausalLMEagle3`.
const ModelFamily* family_of_class(std::string_view name, const std::vector<ModelFamily>& families) {
  const auto letters = [](std::string_view word) {
    std::string out;
    for (const char c : word)
      if (c != '_') out += lower_case(c);
    return out;
  };
  for (const std::string_view head : {"ForCausalLM", "LMHeadModel"}) {
    if (!name.ends_with(head)) continue;
    const std::string stem = letters(name.substr(0, name.size() - head.size()));
    const auto found = std::find_if(families.begin(), families.end(),
                                    [&](const ModelFamily& family) { return letters(family.model_type) == stem; });
    return found == families.end() ? nullptr : &*found;
  }
  return nullptr;
}

/// The model that a family makes of a config, and what it finds wrong in it. Without windows, which have no weights: a
/// family that has one where the config says nothing (4096 of Mistral) is no sign of an edit.
std::pair<Model, Errors> built_as(const ModelFamily& family, const JsonConfig& config) {
  nlohmann::json values = config.values();
  values["model_type"] = family.model_type;
  JsonConfig read(values, "", "");
  ModelBuilder out;
  family.build(read, out);
  ModelBuilder plain;
  const auto without_window = [&](int kind) {
    Layer layer = out.model.kinds[static_cast<std::size_t>(kind)];
    layer.attention.window = 0;
    return plain.kind(layer);
  };
  std::transform(out.model.layers.begin(), out.model.layers.end(), out.model.layers.begin(), without_window);
  std::transform(out.model.mtp.kinds.begin(), out.model.mtp.kinds.end(), out.model.mtp.kinds.begin(), without_window);
  out.model.kinds = std::move(plain.model.kinds);
  return {std::move(out.model), read.errors()};
}

/// A class that makes other layers of the config than `model_type` does: one of the two was edited. Transformers'
/// `AutoModelForCausalLM` goes by `model_type`, vLLM by the class, and which of them is meant nobody knows.
void judge_class(JsonConfig& root, const JsonConfig& config, const ModelFamily& own) {
  const std::vector<ModelFamily> families = all_families();
  const std::pair<Model, Errors> built = built_as(own, config);
  const ModelFamily* other = nullptr;
  bool other_is_whole = false;
  for (const std::string& name : classes_of(root)) {
    const ModelFamily* family = family_of_class(name, families);
    if (family == nullptr || family->build == own.build) return;
    const std::pair<Model, Errors> theirs = built_as(*family, config);
    if (theirs == built) return;
    other = family;
    other_is_whole = theirs.second.empty();
  }
  if (other == nullptr) return;
  const std::string leave_out = "leave `architectures` out";
  root.error("architectures", "conflict",
             fmt::format("`architectures` is of `{}`, which makes other layers of this config than `model_type` `{}`",
                         other->model_type, own.model_type),
             {other_is_whole ? fmt::format("write `\"model_type\": \"{}\"`, or {}", other->model_type, leave_out)
                             : leave_out});
}

/// A class of transformers whose head is another than that of a language model: it has no matrix of the vocabulary.
/// Where several classes are named, or one without a list, one of a language model is enough.
void judge_head(JsonConfig& root) {
  const std::vector<std::string> names = classes_of(root);
  const auto models_language = [](const std::string& name) {
    return name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel");
  };
  if (std::any_of(names.begin(), names.end(), models_language)) return;
  for (const std::string& name : names)
    for (const char* head : {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
                             "ForMaskedLM", "ForMultipleChoice"})
      if (name.ends_with(head))
        root.error(
            "architectures", "unsupported",
            fmt::format("`{}` has another head than a language model's, which is not modelled", yaml::printable(name)),
            {"leave `architectures` out to plan for the language model of these layers"});
}

/// Transformers looks the activation up by name, and stops at one that it does
/// not have.
void judge_activation(JsonConfig& config) {
  static constexpr auto known = word_list([] {
    return "gelu gelu_10 gelu_accurate gelu_fast gelu_new gelu_python gelu_python_tanh hardswish gelu_pytorch_tanh "
           "laplace leaky_relu linear mish prelu quick_gelu relu relu2 relu6 sigmoid silu swish tanh xielu";
  });
  for (const std::string_view key : {"hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"}) {
    const std::string word = config.text_or(key, "silu");
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    const std::string near = nearest_name(word, known);
    config.error(key, "unknown_activation",
                 fmt::format("`{}` is `{}`, an activation that is not known", key, yaml::printable(word)),
                 {near.empty() ? fmt::format("known are {}", fmt::join(known, ", ")) : the_nearest_is(near)});
  }
}

/// What routers in the manner of DeepSeek's choose by: a known score, and groups of experts that divide them and hold
/// as many as a token goes to. Its own code fails on others.
void judge_router(JsonConfig& config, const Model& model) {
  const std::string score = config.text_or("scoring_func", "softmax");
  if (score != "softmax" && score != "sigmoid")
    config.error("scoring_func", "bad_value",
                 fmt::format("`scoring_func` is `{}`, a score of experts that is not known", yaml::printable(score)),
                 {"known are softmax, sigmoid"});
  const auto mixture =
      std::find_if(model.kinds.begin(), model.kinds.end(), [](const Layer& kind) { return kind.ffn == Ffn::Moe; });
  const std::int64_t groups = config.size_or({"n_group"}, 1, 0, 1e5);
  const std::int64_t chosen = config.size_or({"topk_group"}, groups, 0, 1e5);
  if (mixture == model.kinds.end() || groups <= 1 || config.text_or("topk_method", "") == "greedy") return;
  const std::int64_t experts = mixture->moe.experts, top_k = mixture->moe.top_k;
  if (experts % groups != 0)
    config.error("n_group", "bad_value", fmt::format("`n_group` {} does not divide {} experts", groups, experts));
  else if (chosen < 1 || chosen > groups)
    config.error("topk_group", "bad_value", fmt::format("`topk_group` {} of `n_group` {} groups", chosen, groups),
                 {fmt::format("1 to {} make sense", groups)});
  else if (top_k > experts / groups * chosen)
    config.error("topk_group", "bad_value",
                 fmt::format("a token goes to {} experts, and `topk_group` {} holds {}", top_k, chosen,
                             experts / groups * chosen),
                 {fmt::format("{} groups and more make sense", (top_k * groups + experts - 1) / experts)});
}

/// A layer from which on experts begin, behind the last one: there would be none. Where the model is cut in depth that
/// may be meant, and where the number is a slip it is not, so that it has to be said.
void judge_order(JsonConfig& config, const Model& model) {
  if (!config.errors().empty()) return;  // the depth may be wrong
  for (const char* key : {"first_k_dense_replace", "moe_layer_start_index"})
    if (config.asked(key) && config.size_or({key}, 0, 0, 1e4) > model.depth())
      config.error(key, "conflict", fmt::format("`{}` is more than the {} layers of the model", key, model.depth()),
                   {fmt::format("write `\"{}\": {}` if no layer is to have experts", key, model.depth())});
}

/// The key whose number a problem of the whole model is about, by what the problem names; empty if the file has none.
std::string_view key_behind(std::string_view problem, const JsonConfig& config) {
  struct Named {
    std::string_view part, key;
  };
  constexpr Named kNamed[] = {{"KV heads", "num_key_value_heads"},
                              {"KV heads", "num_kv_heads"},
                              {"KV heads", "n_head_kv"},
                              {"KV heads", "kv_n_heads"},
                              {"experts", "num_experts_per_tok"},
                              {"experts", "moe_topk"},
                              {"experts", "experts_per_token"},
                              {"experts", "moe_top_k"},
                              {"experts", "moe_k"},
                              {"heads", "num_attention_heads"},
                              {"heads", "n_head"},
                              {"layers", "num_hidden_layers"},
                              {"layers", "n_layer"}};
  for (const Named& named : kNamed)
    if (problem.find(named.part) != std::string_view::npos && config.place(named.key).line > 0) return named.key;
  return {};
}

}  // namespace

std::string parts_beside(const std::string& text) {
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  if (!root.is_object()) return {};
  std::string out;
  for (const auto& [key, value] : root.items())
    for (const std::string_view part : {"vision", "vit", "image", "video", "audio", "speech", "sound", "qformer",
                                        "perceiver", "talker", "token2wav", "quantization"})
      if (key.starts_with(part) && key.ends_with("_config") && value.is_object())
        out += (out.empty() ? "" : ", ") + key;
  return out;
}

Result<Model> read_config_json(const std::string& text, const std::string& file, KeysOf keys) {
  Result<nlohmann::json> parsed = parse_json(text, file);
  if (!parsed) return tl::unexpected(parsed.error());
  const std::string nested = language_model(*parsed);
  JsonConfig root(*parsed, text, file);
  const std::string outer = root.text_or("model_type", "");
  JsonConfig config = nested.empty() ? root : root.object(nested);
  const std::string type = config.text_or("model_type", outer);
  ModelBuilder out;
  if (type.empty() && root.errors().empty()) root.error("", "missing_key", "`model_type` is missing");
  const std::optional<ModelFamily> family = family_called(type);
  if (family) {
    family->build(config, out);
    read_dropout(config, out.model);
    judge_router(config, out.model);
    judge_order(config, out.model);
    judge_class(root, config, *family);
    if (keys == KeysOf::Checkpoint) judge_shapes(config);
  } else if (!type.empty() && root.errors().empty()) {
    unknown_family(root, "model_type", type);
  }
  const std::int64_t stated = type == "bloom" ? config.size_or({"seq_length"}, 4096, 1, 1e8) : 4096;
  const std::int64_t longest = config.size_or({"max_seq_len"}, stated, 1, 1e8);  // MPT's name of it
  const std::int64_t positions = config.size_or({"max_position_embeddings", "n_positions"}, longest, 1, 1e8);
  judge_activation(config);
  judge_head(root);
  if (family && keys == KeysOf::Checkpoint) judge_spelling(config);
  root.take(config);
  if (!root.errors().empty()) return fail(root.errors());
  out.model.name = name_of(root, file);
  out.model.default_seq = std::min<std::int64_t>(positions, 4096);
  if (const std::string problem = absurdity(out.model); !problem.empty()) {
    Error error = whole_file(file, "absurd_model", problem);
    if (const std::string_view key = key_behind(problem, config); !key.empty()) error.place = config.place(key);
    return fail(std::move(error));
  }
  return out.model;
}

}  // namespace plan
