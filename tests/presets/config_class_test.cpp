// What a config.json says twice: the class beside `model_type`, and lists of layers beside their number.
#include <doctest/doctest.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "family_configs.hpp"
#include "presets/config_json.hpp"

namespace {

using nlohmann::json;
using plan::family_configs;
using plan::read_config;

bool names_key(const plan::Errors& errors, const std::string& word) {
  for (const plan::Error& error : errors)
    if (error.message.find("`" + word + "`") != std::string::npos) return true;
  return false;
}

/// `Qwen3Moe` of `qwen3_moe`, as classes are called.
std::string camel(const std::string& type) {
  std::string out;
  bool begins = true;
  for (const char c : type) {
    if (c != '_') out += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begins = c == '_';
  }
  return out;
}

/// Four layers of a family, with what `more` says of them.
json four_layers(const char* type, const json& more) {
  json config = {{"model_type", type},     {"hidden_size", 64},        {"intermediate_size", 128},
                 {"num_hidden_layers", 4}, {"num_attention_heads", 4}, {"vocab_size", 100}};
  config.update(more);
  return config;
}

/// The help of the one mistake of a config, which is of that key.
std::string help_of(const json& config, const std::string& key) {
  const auto model = read_config(config);
  REQUIRE_FALSE(model.has_value());
  REQUIRE(model.error().size() == 1);
  CHECK(names_key(model.error(), key));
  REQUIRE(model.error().front().help.size() == 1);
  return model.error().front().help.front();
}

}  // namespace

TEST_CASE("a class of other layers than those of `model_type` is refused, and one of the same layers is not") {
  int refused = 0;
  for (const json& config : family_configs()) {
    const auto right = read_config(config);
    const std::string own = config["model_type"];
    if (!right.has_value()) continue;
    json edited = config;
    edited["architectures"] = json::array({camel(own) + "ForCausalLM"});
    CAPTURE(edited.dump());
    CHECK(read_config(edited) == right);
    for (const std::string other : {"LlamaForCausalLM", "Qwen3MoeForCausalLM", "GPT2LMHeadModel"}) {
      CAPTURE(other);
      edited["architectures"] = json::array({other});
      const auto model = read_config(edited);
      if (model.has_value()) {  // of the same layers
        CHECK(model == right);
        continue;
      }
      CHECK(names_key(model.error(), "architectures"));
      CHECK(model.error().size() == 1);
      ++refused;
      edited["architectures"] = json::array({other, camel(own) + "ForCausalLM"});
      CHECK(read_config(edited) == right);
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("classes that make the same weights are taken, whatever window their families have where none is stated") {
  const json more = {{"num_key_value_heads", 2}, {"head_dim", 16}};
  for (const char* type : {"llama", "mistral", "ministral3"}) {
    const json config = four_layers(type, more);
    const auto right = read_config(config);
    REQUIRE(right.has_value());
    for (const char* other : {"Llama", "Mistral", "Ministral", "Ministral3", "Phi3", "Qwen2"}) {
      json edited = config;
      edited["architectures"] = {std::string(other) + "ForCausalLM"};
      CAPTURE(edited.dump());
      if (other == std::string("Qwen2")) {  // it has biases
        CHECK(help_of(edited, "architectures") == "write `\"model_type\": \"qwen2\"`, or leave `architectures` out");
        edited["architectures"] = {"Qwen2ForCausalLMEagle"};  // no class of the family alone
      }
      CHECK(read_config(edited) == right);
    }
    json edited = config;
    edited["architectures"] = {"Qwen3MoeForCausalLM"};  // whose experts nobody states
    CHECK(help_of(edited, "architectures") == "leave `architectures` out");
  }
}

TEST_CASE("an index of a layer that the model does not have, and a list of another length, are refused") {
  json config = {{"model_type", "qwen3_moe"}, {"hidden_size", 64},        {"intermediate_size", 128},
                 {"num_hidden_layers", 4},    {"num_attention_heads", 4}, {"vocab_size", 100},
                 {"num_experts", 4},          {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32},
                 {"mlp_only_layers", {0, 3}}};
  CHECK(read_config(config).has_value());
  for (const int wrong : {4, -1, 99}) {
    config["mlp_only_layers"] = {0, wrong};
    const auto model = read_config(config);
    REQUIRE_FALSE(model.has_value());
    CHECK(names_key(model.error(), "mlp_only_layers"));
  }
  json first = config;
  first.erase("mlp_only_layers");
  first.update({{"model_type", "dots1"}, {"n_routed_experts", 4}, {"first_k_dense_replace", 4}});
  first.erase("num_experts");
  CHECK(read_config(first).has_value());
  first["first_k_dense_replace"] = 5;
  REQUIRE_FALSE(read_config(first).has_value());
  CHECK(names_key(read_config(first).error(), "first_k_dense_replace"));
  json listed = config;
  listed.erase("mlp_only_layers");
  listed.update({{"model_type", "minimax_m2"}, {"num_local_experts", 4}, {"attn_type_list", {1, 1, 1, 1}}});
  listed.erase("num_experts");
  listed.erase("moe_intermediate_size");
  CHECK(read_config(listed).has_value());
  listed["attn_type_list"] = {1, 1};
  REQUIRE_FALSE(read_config(listed).has_value());
  CHECK(names_key(read_config(listed).error(), "attn_type_list"));
}

TEST_CASE("a config that is cut in depth is told the smallest change, and is read with it") {
  const json experts = {{"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}};
  json first = four_layers("dots1", experts);
  first.update({{"n_routed_experts", 4}, {"first_k_dense_replace", 9}});
  CHECK(help_of(first, "first_k_dense_replace") ==
        "write `\"first_k_dense_replace\": 4` if no layer is to have experts");
  first["first_k_dense_replace"] = 4;
  CHECK(read_config(first).has_value());

  json indexes = four_layers("qwen3_moe", experts);
  indexes.update({{"num_experts", 4}, {"mlp_only_layers", {0, 7, 40}}});
  CHECK(help_of(indexes, "mlp_only_layers") == "leave 7, 40 out of the list");
  indexes["mlp_only_layers"] = {0};
  CHECK(read_config(indexes).has_value());

  for (const int items : {1, 3, 5, 32}) {
    json list = four_layers("minimax_m2", {{"num_experts_per_tok", 2}, {"num_local_experts", 4}});
    list["attn_type_list"] = std::vector<int>(static_cast<std::size_t>(items), 1);
    CHECK(help_of(list, "attn_type_list") ==
          (items > 4 ? "cut the list to its first 4"
                     : "write an item for each of the 4 layers, or leave `attn_type_list` out"));
    list["attn_type_list"] = {1, 1, 1, 1};
    CHECK(read_config(list).has_value());
  }
}
