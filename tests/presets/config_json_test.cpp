#include "presets/config_json.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "embedded_only.hpp"
#include "formulas/parameters.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"
#include "tests/presets/stored_elements.hpp"

using plan::Model;

namespace {

const std::string kConfigs = std::string(PLAN_SOURCE_DIR) + "/tests/presets/configs/";

std::string text_of(const std::string& name) { return *plan::yaml::read_text(kConfigs + name + ".json"); }

plan::Errors errors_of(const std::string& text) {
  const auto model = plan::read_config_json(text, "config.json");
  return model ? plan::Errors{} : model.error();
}
std::string code_of(const std::string& text) {
  const plan::Errors errors = errors_of(text);
  return errors.empty() ? "" : errors.front().code;
}

const std::string kSmall =
    "{\n  \"model_type\": \"llama\",\n  \"hidden_size\": 64,\n  \"intermediate_size\": 128,\n  \"num_hidden_layers\": "
    "2,\n"
    "  \"num_attention_heads\": 4,\n  \"vocab_size\": 100\n}\n";

std::string with(std::string text, const std::string& old, const std::string& fresh) {
  const std::size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  return text.replace(at, old.size(), fresh);
}

/// Small configs of every family that transformers counted, and those that were published, each as one object.
std::vector<nlohmann::json> every_config() {
  std::vector<nlohmann::json> configs;
  std::ifstream lines(std::string(PLAN_SOURCE_DIR) + "/tests/presets/family_counts.jsonl");
  for (std::string line; std::getline(lines, line);) configs.push_back(nlohmann::json::parse(line)["config"]);
  for (const auto& file : std::filesystem::directory_iterator(kConfigs)) {
    nlohmann::json config = nlohmann::json::parse(text_of(file.path().stem().string()), nullptr, false);
    if (!config.is_discarded()) configs.push_back(std::move(config));  // Nemotron-H's has Infinity
  }
  return configs;
}

/// Where a config states the numbers of its layers.
nlohmann::json& numbers_of(nlohmann::json& config) {
  return config.contains("text_config") ? config["text_config"] : config;
}

/// `family.key`, by which a few configs of each stand for all.
std::string pair_of(const nlohmann::json& config, const std::string& key) {
  return config.value("model_type", "") + "." + key;
}

}  // namespace

TEST_CASE("a config.json describes the same model as the preset") {
  int compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(kConfigs)) {
    const std::string name = file.path().stem().string();
    CAPTURE(name);
    const auto model = plan::load_model(file.path().string(), plan::kEmbeddedOnly);
    if (!model)
      for (const plan::Error& e : model.error()) MESSAGE(name, " ", e.message);
    REQUIRE(model.has_value());
    const Model preset = plan::load_model(name, plan::kEmbeddedOnly)->value;
    Model expected = preset;
    expected.name = model->value.name;
    expected.default_seq = model->value.default_seq;
    expected.default_global_batch = model->value.default_global_batch;
    expected.extra_parameters = 0;       // the vision tower is not read
    if (name == "qwen3-next-80b-a3b") {  // its prediction module is in the checkpoint, not in the config
      expected.mtp = {};
      CHECK(plan::model_parameters(model->value).total == plan::model_parameters(preset).total);
    }
    expected.mtp.passes = 1;                                        // how often a module repeats itself is the recipe's
    if (name == "glm-4.5-air") expected.mtp.own_embedding = false;  // likewise the copies beside it
    CHECK(plan::model_parameters(model->value).total == plan::model_parameters(expected).total);
    CHECK(plan::model_parameters(model->value).with_mtp == plan::model_parameters(expected).with_mtp);
    CHECK(plan::model_parameters(model->value).active == plan::model_parameters(expected).active);
    CHECK(plan::score_bias_elements(model->value) == plan::score_bias_elements(expected));
    CHECK(model->value == expected);
    ++compared;
  }
  CHECK(compared >= 60);
}

TEST_CASE("a folder with a config.json is a model") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "plan_config_folder" / "My-Model-1B";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kConfigs + "llama3.2-1b.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  const auto model = plan::load_model(folder.string(), plan::kEmbeddedOnly);
  REQUIRE(model.has_value());
  CHECK(model->name == "My-Model-1B");
  CHECK(plan::model_parameters(model->value).total == 1'235'814'400);
  std::filesystem::remove_all(folder.parent_path());
}

TEST_CASE("mistakes in a config.json have their place") {
  CHECK(code_of(kSmall) == "");
  const plan::Errors negative = errors_of(with(kSmall, "\"hidden_size\": 64", "\"hidden_size\": -64"));
  REQUIRE(negative.size() == 1);
  CHECK(negative[0].code == "out_of_range");
  CHECK(negative[0].place.line == 3);
  CHECK(negative[0].place.column == 3);
  CHECK(negative[0].place.length == 13);
  CHECK(negative[0].place.text == "  \"hidden_size\": -64,");
  CHECK(code_of(with(kSmall, "64", "1e30")) == "out_of_range");
  CHECK(code_of(with(kSmall, "64", "10000000000000000000000000000000")) == "out_of_range");
  CHECK(code_of(with(kSmall, "64", "NaN")) == "out_of_range");
  CHECK(code_of(with(kSmall, "64", "\"wide\"")) == "bad_value");
  CHECK(code_of(with(kSmall, "64", "64.5")) == "bad_value");
  CHECK(code_of(with(kSmall, "64", "null")) == "missing_key");
  CHECK(code_of(with(kSmall, "\"vocab_size\": 100", "\"vocab_size\": 100, \"num_key_value_heads\": 3")) ==
        "absurd_model");
  CHECK(code_of(with(kSmall, "\"hidden_size\": 64", "\"hidden_size\": 64, \"d_model\": 64")) == "");
  CHECK(code_of(with(kSmall, "\"hidden_size\": 64", "\"hidden_size\": 64, \"d_model\": 128")) == "conflict");
  // A key's name as a value, before the key: the place is the key's.
  const plan::Errors named =
      errors_of(with(kSmall, "\"hidden_size\": 64",
                     "\"note\": \"hidden_size\", \"other\": [\"hidden_size\"],\n  \"hidden_size\" : -64"));
  REQUIRE(named.size() == 1);
  CHECK(named[0].place.line == 4);
  CHECK(named[0].place.column == 3);
  const plan::Errors family = errors_of(with(kSmall, "llama", "lama"));
  REQUIRE(family.size() == 1);
  CHECK(family[0].code == "unknown_model_type");
  CHECK(family[0].help[0] == "a family with a similar name exists: `llama`");
  CHECK(family[0].place.line == 2);
  CHECK(errors_of("{\"model_type\": \"llama\"}").size() >= 4);  // each missing key, once
}

TEST_CASE("a nested config's mistake is placed inside it") {
  const plan::Errors errors = errors_of(with(text_of("gemma3-27b"), "5376", "-5376"));
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].place.line == 7);
  CHECK(errors[0].place.text.find("-5376") != std::string::npos);
}

TEST_CASE("what is no JSON is one clear error") {
  CHECK(code_of("") == "json_syntax");
  CHECK(code_of("{\"model_type\": \"llama\", \"hidden_size\": 64") == "json_syntax");
  CHECK(errors_of("{\"model_type\": \"llama\",").front().message == "the file ends in the middle");
  CHECK(code_of("[1, 2]") == "bad_value");
  CHECK(code_of("42") == "bad_value");
  CHECK(code_of("{}") == "missing_key");
  CHECK(code_of("{\"model_type\": 3}") == "bad_value");
  CHECK(code_of("{\"model_type\": \"llama\", \"text_config\": 3}") == "bad_value");
  CHECK(code_of(std::string(100000, '[')) == "json_refused");
  CHECK(code_of(std::string(5u << 20, ' ')) == "too_large");
  CHECK(code_of("\xff\xfe\x01") == "json_syntax");
  CHECK(errors_of("{\n  \"a\": 1,\n  oops\n}").front().place.line == 3);
}

TEST_CASE("a config cut anywhere or with a byte changed neither crashes nor hangs") {
  const std::string text = text_of("deepseek-v3");
  for (std::size_t n = 0; n < text.size() - 2; n += 3) CHECK_FALSE(errors_of(text.substr(0, n)).empty());
  for (std::size_t n = 0; n < text.size(); n += 7)
    for (const char c : {'\0', '"', '9', '{', '-'}) {
      std::string changed = text;
      changed[n] = c;
      const auto model = plan::read_config_json(changed, "config.json");
      CHECK((model.has_value() || !model.error().empty()));
    }
}

TEST_CASE("a config.json that says nonsense is refused, and names the key") {
  const auto plus = [](const std::string& more) { return with(kSmall, "100\n}", "100,\n  " + more + "\n}"); };
  for (const char* positions : {"0", "-1", "1e308", "\"x\"", "2.5"})
    CHECK_FALSE(code_of(plus(std::string("\"max_position_embeddings\": ") + positions)).empty());
  CHECK(code_of(plus("\"max_position_embeddings\": 131072")).empty());
  for (const char* activation : {"\"x\"", "1", "[]", "\"\""})
    CHECK_FALSE(code_of(plus(std::string("\"hidden_act\": ") + activation)).empty());
  for (const char* activation : {"\"silu\"", "\"gelu_pytorch_tanh\"", "null"})
    CHECK(code_of(plus(std::string("\"hidden_act\": ") + activation)).empty());
  const plan::Errors twice = errors_of(plus("\"hidden_size\": 128"));
  REQUIRE(twice.size() == 1);
  CHECK(twice[0].code == "duplicate_key");
  CHECK(twice[0].place.line == 8);
  CHECK(code_of(plus("\"a\": {\"b\": 1}, \"c\": {\"b\": 1}")).empty());
  CHECK(code_of(kSmall + std::string(1, '\0')) == "json_syntax");
  CHECK(code_of(kSmall + std::string("\0{", 2)) == "json_syntax");
}

TEST_CASE("every count of a config has a limit, and the limit itself is taken") {
  struct Row {
    const char *config, *key;
    long long most;
  };
  for (const Row& row :
       {Row{"deepseek-moe-16b", "n_shared_experts", 10000}, Row{"deepseek-moe-16b", "first_k_dense_replace", 10000},
        Row{"deepseek-v3", "num_nextn_predict_layers", 64}, Row{"llama3-8b", "num_attention_heads", 100000},
        Row{"llama3-8b", "num_key_value_heads", 100000}, Row{"llama3-8b", "hidden_size", 1000000},
        Row{"llama3-8b", "max_position_embeddings", 100000000}}) {
    CAPTURE(row.key);
    const std::string text = text_of(row.config), quoted = '"' + std::string(row.key) + '"';
    const std::size_t key = text.find(quoted), colon = text.find(':', key), end = text.find_first_of(",\n}", colon);
    REQUIRE(key != std::string::npos);
    const auto has_place = [&](long long value) {
      const std::string edited = text.substr(0, colon + 1) + " " + std::to_string(value) + text.substr(end);
      for (const plan::Error& error : errors_of(edited))
        if (error.code == "out_of_range" && error.message.find(row.key) != std::string::npos) return true;
      return false;
    };
    CHECK_FALSE(has_place(row.most));
    CHECK(has_place(row.most + 1));
    CHECK(has_place(-1));
  }
}

TEST_CASE("a small config of every family counts what transformers builds of it") {
  std::ifstream lines(std::string(PLAN_SOURCE_DIR) + "/tests/presets/family_counts.jsonl");
  int compared = 0;
  for (std::string line; std::getline(lines, line); ++compared) {
    CAPTURE(line);
    const nlohmann::json row = nlohmann::json::parse(line);
    const auto model = plan::read_config_json(row["config"].dump(), "config.json");
    if (!model)
      for (const plan::Error& e : model.error()) MESSAGE(e.message);
    REQUIRE(model.has_value());
    CHECK(plan::model_parameters(*model).total + model->extra_parameters == row["trained"].get<std::int64_t>());
  }
  CHECK(compared >= 500);
}

// A width of nought is a layer that is not there: a reader that takes it counts a model that nobody can build.
TEST_CASE("no width, depth or count of heads is nought in any family") {
  std::map<std::string, int> tried;
  int refused = 0;
  for (nlohmann::json config : every_config()) {
    const auto whole = plan::read_config_json(config.dump(), "config.json");
    REQUIRE(whole.has_value());
    for (const char* key : {"hidden_size",
                            "n_embd",
                            "d_model",
                            "num_hidden_layers",
                            "n_layer",
                            "n_layers",
                            "num_attention_heads",
                            "n_head",
                            "n_heads",
                            "num_key_value_heads",
                            "head_dim",
                            "intermediate_size",
                            "ffn_dim",
                            "n_inner",
                            "ffn_hidden_size",
                            "moe_intermediate_size",
                            "vocab_size",
                            "kv_lora_rank",
                            "v_head_dim",
                            "linear_key_head_dim",
                            "linear_value_head_dim",
                            "linear_num_key_heads",
                            "linear_num_value_heads",
                            "mamba_num_heads",
                            "mamba_head_dim"}) {
      for (const char* part : {"", "/ffn_config", "/attn_config"}) {  // MPT and DBRX have objects of their own
        const nlohmann::json::json_pointer at(part);
        const nlohmann::json& numbers = numbers_of(config);
        if (!numbers.contains(at) || !numbers[at].contains(key)) continue;
        if (!numbers[at][key].is_number_integer() || numbers[at][key] == 0) continue;
        if (++tried[pair_of(config, key) + part] > 3) continue;
        nlohmann::json empty = config;
        numbers_of(empty)[at][key] = 0;
        CAPTURE(empty.dump());
        const auto model = plan::read_config_json(empty.dump(), "config.json");
        CHECK((!model || *model == *whole));  // or the family does not read the key
        refused += !model;
      }
    }
  }
  CHECK(refused >= 300);
}

TEST_CASE("one of anything is a number that every family takes") {
  std::map<std::string, int> tried;
  for (nlohmann::json config : every_config()) {
    nlohmann::json& numbers = numbers_of(config);
    for (const char* key : {"num_nextn_predict_layers", "num_shared_experts", "n_shared_experts", "sliding_window"})
      if (!numbers.contains(key)) numbers[key] = 1;  // what few of them state
    for (const auto& [key, value] : numbers.items()) {
      if (!value.is_number_integer() || ++tried[pair_of(config, key)] > 1) continue;
      nlohmann::json one = config;
      numbers_of(one)[key] = 1;
      const auto model = plan::read_config_json(one.dump(), "config.json");
      for (const plan::Error& error : model ? plan::Errors{} : model.error()) {
        CAPTURE(one.dump());
        CAPTURE(error.message);  // other numbers may no longer fit to it
        CHECK((error.code != "out_of_range" || error.message.find('`' + key + '`') == std::string::npos));
      }
    }
  }
  CHECK(tried.size() > 300);
}

// Files of Gemma 3 were published that state little more than their widths: transformers, Gemma3TextConfig.
TEST_CASE("a Gemma 3 that states its widths alone is the one that its class in transformers describes") {
  const nlohmann::json brief{{"model_type", "gemma3_text"}, {"hidden_size", 2304}, {"vocab_size", 262208}};
  nlohmann::json whole = brief;
  whole.update({{"num_hidden_layers", 26},
                {"num_attention_heads", 8},
                {"num_key_value_heads", 4},
                {"head_dim", 256},
                {"intermediate_size", 9216},
                {"sliding_window", 4096},
                {"sliding_window_pattern", 6},
                {"attention_bias", false}});
  const auto stated = plan::read_config_json(whole.dump(), "config.json");
  const auto assumed = plan::read_config_json(brief.dump(), "config.json");
  REQUIRE(stated);
  REQUIRE(assumed);
  CHECK(*stated == *assumed);
  CHECK(stated->depth() == 26);
}

// The same for what every config above states: the experts, by the families' own classes.
TEST_CASE("experts that a config does not count are as many as its family's class in transformers assumes") {
  struct Row {
    const char *family, *experts, *chosen;
    int of, by;
  };
  std::map<std::string, nlohmann::json> saved;
  std::ifstream file(std::string(PLAN_SOURCE_DIR) + "/tests/presets/family_defaults.jsonl");
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json config = nlohmann::json::parse(line)["saved"];
    saved[config["model_type"]] = config;
  }
  for (const Row& row : {Row{"mixtral", "num_local_experts", "num_experts_per_tok", 8, 2},
                         {"granitemoe", "num_local_experts", "num_experts_per_tok", 8, 2},
                         {"granitemoeshared", "num_local_experts", "num_experts_per_tok", 8, 2},
                         {"granitemoehybrid", "num_local_experts", "num_experts_per_tok", 8, 2},
                         {"phimoe", "num_local_experts", "num_experts_per_tok", 16, 2},
                         {"gpt_oss", "num_local_experts", "num_experts_per_tok", 128, 4},
                         {"qwen2_moe", "num_experts", "num_experts_per_tok", 60, 4},
                         {"qwen3_moe", "num_experts", "num_experts_per_tok", 128, 8},
                         {"olmoe", "num_experts", "num_experts_per_tok", 64, 8},
                         {"deepseek_v3", "n_routed_experts", "num_experts_per_tok", 256, 8},
                         {"glm4_moe", "n_routed_experts", "num_experts_per_tok", 128, 8}}) {
    INFO(std::string(row.family));
    REQUIRE(saved.count(row.family) == 1);
    nlohmann::json stated = saved[row.family];
    for (const char* name : {"num_local_experts", "num_experts"}) stated.erase(name);  // some say it twice
    stated[row.experts] = row.of, stated[row.chosen] = row.by;
    for (const auto& left_out :
         {std::vector{row.experts}, std::vector{row.chosen}, std::vector{row.experts, row.chosen}}) {
      nlohmann::json brief = stated;
      for (const char* key : left_out) brief.erase(key);
      const auto whole = plan::read_config_json(stated.dump(), "config.json");
      const auto assumed = plan::read_config_json(brief.dump(), "config.json");
      for (const plan::Error& e : whole ? plan::Errors{} : whole.error()) MESSAGE(e.message);
      REQUIRE(whole.has_value());
      if (assumed)
        CHECK(*assumed == *whole);
      else
        CHECK(assumed.error().front().code == "missing_key");
    }
  }
}

TEST_CASE("what a config leaves out is what its family's class in transformers assumes") {
  std::ifstream file(std::string(PLAN_SOURCE_DIR) + "/tests/presets/family_defaults.jsonl");
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    CAPTURE(line);
    const auto brief = plan::read_config_json(row["config"].dump(), "config.json");
    const auto whole = plan::read_config_json(row["saved"].dump(), "config.json");
    for (const plan::Error& e : whole ? plan::Errors{} : whole.error()) MESSAGE(e.message);
    CHECK(brief.has_value());
    CHECK(whole.has_value());
    if (!brief || !whole) continue;
    Model expected = *whole;
    expected.default_seq = brief->default_seq;  // the length that is trained and dropout are a recipe's, not a family's
    expected.dropout = brief->dropout;
    CHECK(*brief == expected);
    ++compared;
  }
  CHECK(compared >= 85);
}
