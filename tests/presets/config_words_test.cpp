// Words of a config.json that somebody mistook: a slip in a key, a word of a list that names no kind of layer, two
// names of one number. Each is refused by name, and none gives another model.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "family_configs.hpp"
#include "formulas/parameters.hpp"
#include "presets/config_json.hpp"
#include "presets/store.hpp"

namespace {

using nlohmann::json;
using plan::family_configs;
using plan::read_config;

/// Configs as they were published.
std::vector<json> published_configs() {
  std::vector<json> configs;
  for (const auto& file : std::filesystem::directory_iterator(std::string(PLAN_SOURCE_DIR) + "/tests/presets/configs"))
    if (json config = json::parse(std::ifstream(file.path()), nullptr, false); !config.is_discarded())
      configs.push_back(std::move(config));  // Python writes Infinity, which is no JSON
  return configs;
}

/// One mistake of the finger: a letter left out, doubled, or swapped with the next.
std::string slip(std::string word, std::mt19937& random) {
  const std::size_t at = random() % (word.size() - 1);
  switch (random() % 3) {
    case 0: word.erase(at, 1); break;
    case 1: word.insert(at, 1, word[at]); break;
    default: std::swap(word[at], word[at + 1]);
  }
  return word;
}

/// Every key, with the object that it is in: the config itself, or one inside it.
std::vector<std::pair<json::json_pointer, std::string>> key_paths(const json& config) {
  std::vector<std::pair<json::json_pointer, std::string>> out;
  for (const auto& item : config.items()) {
    out.emplace_back(json::json_pointer(), item.key());
    if (!item.value().is_object()) continue;
    for (const auto& inner : item.value().items()) out.emplace_back(json::json_pointer("/" + item.key()), inner.key());
  }
  return out;
}

bool names(const plan::Errors& errors, const std::string& word) {
  for (const plan::Error& error : errors)
    if (error.message.find("`" + word + "`") != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("a slip in a key of a config gives no other model, nor do two in a long one") {
  std::mt19937 random(20261126);
  int refused = 0;
  for (const json& config : family_configs()) {
    const auto right = read_config(config);
    REQUIRE(right.has_value());
    for (const auto& [path, leaf] : key_paths(config)) {
      const json& object = config.at(path);
      if (object.at(leaf).is_null() || leaf == "model_type") continue;
      std::string wrong = slip(leaf, random);
      const std::size_t half = leaf.size() / 2;
      if (leaf.size() >= 12 && random() % 2 == 0)
        if (std::string twice = slip(leaf.substr(0, half), random) + slip(leaf.substr(half), random);
            twice.size() >= 12)
          wrong = std::move(twice);
      if (object.contains(wrong)) continue;
      json edited = config;
      edited[path].erase(leaf);
      edited[path][wrong] = object.at(leaf);
      const auto model = read_config(edited);
      if (model.has_value() && *model == *right) continue;
      CAPTURE(config.dump());
      CAPTURE(wrong);
      CHECK_FALSE(model.has_value());
      if (model.has_value()) continue;
      CHECK(names(model.error(), wrong));
      ++refused;
    }
  }
  CHECK(refused > 2000);
}

TEST_CASE("a value of another type is refused for every key, but those that change no layer") {
  // What a checkpoint says of its training, its tokens and its files, and what a family or this very model has no use
  // for: Multi-Query of Falcon's newer decoders, widths of plain layers where all are mixtures.
  const std::set<std::string> free = {
      "architectures",     "bos_token_id",        "eos_token_id", "pad_token_id",      "initializer_range",
      "rms_norm_eps",      "layer_norm_eps",      "rope_theta",   "rope_scaling",      "rope_parameters",
      "torch_dtype",       "use_cache",           "alibi",        "clip_qkv",          "multi_query",
      "parallel_attn",     "quantization_config", "quant_method", "vision_config",     "transformers_version",
      "weight_block_size", "time_step_limit",     "use_mtp",      "intermediate_size", "sliding_window",
      "head_dim",          "model_type"};
  int refused = 0;
  for (const json& config : published_configs())
    for (const auto& key : key_paths(config)) {
      const auto& path = key.first;
      const std::string& leaf = key.second;
      if (free.count(leaf) > 0 || path == json::json_pointer("/vision_config")) continue;
      json edited = config;
      edited[path][leaf] =
          config.at(path).at(leaf).is_string() || config.at(path).at(leaf).is_object() ? json(7) : json({{"a", 1}});
      CAPTURE(config.dump());
      CAPTURE(leaf);
      const auto model = read_config(edited);
      CHECK_FALSE(model.has_value());
      refused += model.has_value() ? 0 : 1;
    }
  CHECK(refused > 500);
}

TEST_CASE("parts of a model that no family here has, and probabilities out of range, are refused by their key") {
  for (const json& config : family_configs()) {
    const std::string heads = config.contains("num_attention_heads") ? "num_attention_heads" : "n_head";
    for (const auto& [key, value] :
         std::vector<std::pair<std::string, json>>{{"add_cross_attention", true},
                                                   {"is_encoder_decoder", true},
                                                   {"pruned_heads", {{"1", {0, 2}}}},
                                                   {"cross_attention_hidden_size", 512},
                                                   {"attention_dropout", 1.5},
                                                   {"attention_dropout", -0.1},
                                                   {"resid_pdrop", "0.1"},
                                                   {"attn_pdrop", 2},
                                                   {"layerdrop", 0.1},
                                                   {"architectures", {"LlamaForSequenceClassification"}}}) {
      json edited = config;
      edited[key] = value;
      const auto model = read_config(edited);
      CAPTURE(edited.dump());
      REQUIRE_FALSE(model.has_value());
      REQUIRE(model.error().size() == 1);
      CHECK(model.error().front().place.line > 0);
    }
    json edited = config;
    edited["attention_dropout"] = 0.25;
    const auto model = read_config(edited);
    REQUIRE(model.has_value());
    CHECK(model->dropout == 0.25);
  }
}

TEST_CASE("dropout of other places than the layers' is checked, and makes no other model") {
  for (const json& config : family_configs()) {
    const auto right = read_config(config);
    REQUIRE(right.has_value());
    for (const char* key : {"embd_pdrop", "embedding_dropout", "emb_pdrop", "activation_dropout"}) {
      json edited = config;
      edited[key] = 0.2;
      CAPTURE(edited.dump());
      CHECK(read_config(edited) == right);
      edited[key] = 1.5;
      CHECK_FALSE(read_config(edited).has_value());
    }
  }
}

TEST_CASE("one class with a language model's head among `architectures` is enough, in a list or alone") {
  for (json config : published_configs()) {
    const auto right = read_config(config);
    REQUIRE(right.has_value());
    const std::vector<json> taken = {"OursForCausalLM",
                                     "",
                                     {"LlamaForSequenceClassification", "OursForCausalLM"},
                                     {"OursLMHeadModel", "GPT2ForTokenClassification"}};
    const std::vector<json> refused = {"LlamaForSequenceClassification",
                                       {"BertModel", "BertForMaskedLM"},
                                       json::array({"LlamaForSequenceClassification"})};
    for (const json& classes : taken) {
      config["architectures"] = classes;
      CAPTURE(config.dump());
      CHECK(read_config(config) == right);
    }
    for (const json& classes : refused) {
      config["architectures"] = classes;
      CAPTURE(config.dump());
      CHECK_FALSE(read_config(config).has_value());
    }
  }
}

TEST_CASE("BLOOM's `seq_length` is its sequence") {
  int tried = 0;
  for (json config : published_configs()) {
    if (config.value("model_type", "") != "bloom") continue;
    for (const int length : {1, 512, 2048, 4096}) {
      config["seq_length"] = length;
      const auto model = read_config(config);
      REQUIRE(model.has_value());
      CHECK(model->default_seq == length);
      ++tried;
    }
    config["seq_length"] = 0;
    CHECK_FALSE(read_config(config).has_value());
  }
  CHECK(tried > 0);
}

TEST_CASE("heads without a stated width divide the hidden size") {
  int refused = 0, taken = 0;
  for (json config : published_configs()) {
    const auto right = read_config(config);
    REQUIRE(right.has_value());
    const std::string key = config.contains("n_head") ? "n_head" : "num_attention_heads";
    if (!config.contains(key) || right->kinds.front().mixer != plan::Mixer::Attention) continue;
    for (std::int64_t heads = 1; heads < 100; ++heads) {
      config[key] = heads;
      const auto model = read_config(config);
      if (!model.has_value()) {
        ++refused;
        CHECK(model.error().size() == 1);
        continue;
      }
      ++taken;
      const plan::AttentionShape& a = model->kinds.front().attention;
      CAPTURE(config.dump());
      CHECK((a.heads * a.head_dim == model->hidden || a.head_dim == right->kinds.front().attention.head_dim));
    }
  }
  CHECK(refused > 100);
  CHECK(taken > 100);
}

TEST_CASE("a key in another case, or with other strokes, is a slip too") {
  for (const json& config : family_configs()) {
    if (!config.contains("num_key_value_heads")) continue;
    for (const char* wrong : {"numKeyValueHeads", "num-key-value-heads", "NUM_KEY_VALUE_HEADS"}) {
      json edited = config;
      edited.erase("num_key_value_heads");
      edited[wrong] = config["num_key_value_heads"];
      const auto model = read_config(edited);
      if (model.has_value()) {
        CHECK(*model == *read_config(config));
      } else {
        CHECK(names(model.error(), wrong));
      }
    }
  }
}

TEST_CASE("a number added under a name that is a letter away from a key which is there is refused") {
  int refused = 0;
  for (const json& config : published_configs()) {
    for (const auto& [key, value] : config.items()) {
      if (!value.is_number_integer() || key.size() < 12 || config.contains(key + "s")) continue;
      json edited = config;
      edited[key + "s"] = value.get<std::int64_t>() + 1;
      const auto model = read_config(edited);
      CAPTURE(edited.dump());
      if (model.has_value()) continue;  // nothing follows from the key
      CHECK(names(model.error(), key + "s"));
      ++refused;
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("a list of layers has known words, one for each") {
  const json dense = {{"model_type", "qwen3"},  {"hidden_size", 64},         {"intermediate_size", 128},
                      {"num_hidden_layers", 4}, {"num_attention_heads", 4},  {"vocab_size", 100},
                      {"sliding_window", 16},   {"use_sliding_window", true}};
  json mixture = dense;
  mixture.update(
      {{"model_type", "dots1"}, {"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}});
  mixture.erase("use_sliding_window");
  struct List {
    json config;
    const char* key;
    const char* right;
  };
  json windows = dense;
  windows["model_type"] = "olmo3";
  windows.erase("use_sliding_window");
  for (const List& list :
       {List{dense, "layer_types", "full_attention"}, List{windows, "layer_types", "sliding_attention"},
        List{mixture, "layer_types", "full_attention"}, List{mixture, "mlp_layer_types", "sparse"},
        List{mixture, "mlp_layer_types", "dense"}}) {
    json edited = list.config;
    edited[list.key] = std::vector<std::string>(4, list.right);
    CAPTURE(edited.dump());
    CHECK(read_config(edited).has_value());
    for (const char* word : {"linear_attention", "conv", "mamba", "hybrid", "Full_Attention", "moe", "mlp", ""}) {
      CAPTURE(word);
      edited[list.key][2] = word;
      const auto model = read_config(edited);
      REQUIRE_FALSE(model.has_value());
      CHECK(names(model.error(), list.key));
    }
    for (const std::size_t many : {1, 3, 5}) {
      edited[list.key] = std::vector<std::string>(many, list.right);
      CHECK_FALSE(read_config(edited).has_value());
    }
  }
}

TEST_CASE("two names of one number agree") {
  const json llama = {{"model_type", "llama"},  {"hidden_size", 64},        {"intermediate_size", 128},
                      {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"vocab_size", 100},
                      {"head_dim", 16},         {"num_key_value_heads", 2}};
  json edited = llama;
  edited["attention_head_dim"] = 16;
  CHECK(read_config(edited).has_value());
  edited["attention_head_dim"] = 32;
  CHECK_FALSE(read_config(edited).has_value());
  edited = llama;
  edited["num_kv_heads"] = 4;
  CHECK_FALSE(read_config(edited).has_value());
  for (const char* other :
       {"n_kv_heads", "n_kv_head", "num_query_groups", "multi_query_group_num", "ffn_hidden_size"}) {
    edited = llama;
    edited[other] = 1;
    const auto model = read_config(edited);
    REQUIRE_FALSE(model.has_value());
    CHECK(names(model.error(), other));
  }
}

TEST_CASE("Llama 4's mixtures are where its lists say") {
  json llama4 = {{"model_type", "llama4_text"}, {"hidden_size", 64},           {"intermediate_size", 128},
                 {"num_hidden_layers", 4},      {"num_attention_heads", 4},    {"vocab_size", 100},
                 {"num_local_experts", 4},      {"intermediate_size_mlp", 256}};
  const auto mixtures = [](const plan::Model& model) {
    std::string out;
    for (const int kind : model.layers)
      out += model.kinds[static_cast<std::size_t>(kind)].ffn == plan::Ffn::Moe ? 'E' : '-';
    return out;
  };
  CHECK(mixtures(*read_config(llama4)) == "EEEE");
  llama4["moe_layers"] = {1, 3};
  CHECK(mixtures(*read_config(llama4)) == "-E-E");
  llama4["interleave_moe_layer_step"] = 2;
  CHECK(mixtures(*read_config(llama4)) == "-E-E");
  llama4["interleave_moe_layer_step"] = 4;
  CHECK_FALSE(read_config(llama4).has_value());  // the two contradict each other
  llama4.erase("interleave_moe_layer_step");
  llama4["moe_layers"] = {1, 4};
  CHECK_FALSE(read_config(llama4).has_value());
  llama4.erase("moe_layers");
  llama4["layer_types"] = {"chunked_attention", "full_attention", "full_attention", "full_attention"};
  const auto chunked = read_config(llama4);
  REQUIRE(chunked.has_value());
  CHECK(chunked->kinds[static_cast<std::size_t>(chunked->layers[0])].attention.window == 8192);
  CHECK(chunked->kinds[static_cast<std::size_t>(chunked->layers[1])].attention.window == 0);
  llama4["layer_types"][1] = "sliding_attention";
  CHECK_FALSE(read_config(llama4).has_value());
}

TEST_CASE("configs as their publishers wrote them give the model that their names find") {
  const json hunyuan = {{"model_type", "hunyuan"},
                        {"hidden_size", 4096},
                        {"intermediate_size", 3072},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 32},
                        {"num_key_value_heads", 8},
                        {"attention_head_dim", 128},
                        {"vocab_size", 128167},
                        {"num_experts", 64},
                        {"tie_word_embeddings", true},
                        {"use_qk_norm", true},
                        {"use_cla", false},
                        {"cla_share_factor", 2},
                        {"use_mla", false},
                        {"kv_lora_rank", nullptr},
                        {"use_mixed_mlp_moe", true},
                        {"moe_layer_num_skipped", 0},
                        {"moe_topk", std::vector<int>(32, 8)},
                        {"num_shared_expert", std::vector<int>(32, 1)},
                        {"moe_intermediate_size", std::vector<int>(32, 3072)}};
  const json mistral4 = {{"model_type", "mistral4"},    {"hidden_size", 4096},        {"intermediate_size", 12288},
                         {"num_hidden_layers", 36},     {"num_attention_heads", 32},  {"num_key_value_heads", 32},
                         {"vocab_size", 131072},        {"first_k_dense_replace", 0}, {"kv_lora_rank", 256},
                         {"q_lora_rank", 1024},         {"qk_nope_head_dim", 64},     {"qk_rope_head_dim", 64},
                         {"qk_head_dim", 128},          {"v_head_dim", 128},          {"n_routed_experts", 128},
                         {"n_shared_experts", 1},       {"num_experts_per_tok", 4},   {"moe_intermediate_size", 2048},
                         {"tie_word_embeddings", false}};
  for (const auto& [config, name] :
       {std::pair{hunyuan, "tencent/Hunyuan-A13B-Instruct"}, {mistral4, "mistralai/Mistral-Small-4-119B-2603"}}) {
    const auto read = plan::read_config_json(config.dump(), "config.json");
    const auto preset = plan::load_model(name, plan::StoreOptions{});
    REQUIRE(read.has_value());
    REQUIRE(preset.has_value());
    CHECK(plan::model_parameters(*read).total == plan::model_parameters(preset->value).total);
    CHECK(plan::model_parameters(*read).active == plan::model_parameters(preset->value).active);
  }
  json shares = hunyuan;
  shares["use_cla"] = true;
  const auto refused = plan::read_config_json(shares.dump(), "config.json");
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().front().message.find("share keys and values") != std::string::npos);
}
