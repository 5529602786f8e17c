// Names of checkpoints that people type: each finds its model or is refused by the part that is not modelled.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>

#include "formulas/parameters.hpp"
#include "presets/config_json.hpp"
#include "presets/store.hpp"
#include "presets/unmodelled.hpp"
#include "tests/presets/stored_elements.hpp"

namespace {

/// Sizes among the parts of a name, as it writes them: `7b` and `1.5b` of `x-7b-1.5b`.
std::set<std::string> sizes_in(const std::string& name) {
  static const std::regex part("[-_:/]([0-9.]+[bmt])(?=[-_:]|$)", std::regex::icase);
  std::set<std::string> sizes;
  for (std::sregex_iterator at(name.begin(), name.end(), part), end; at != end; ++at) sizes.insert((*at)[1]);
  return sizes;
}

plan::Error refusal_of(const std::string& name) {
  const auto model = plan::load_model(name, plan::StoreOptions{});
  REQUIRE_FALSE(model.has_value());
  return model.error().front();
}

struct Row {
  const char* name;
  std::int64_t total;
};

// Trained parameters without prediction modules and vision towers, as model
// cards and checkpoint indexes print them.
constexpr Row kCheckpoints[] = {
    {"meta-llama/Llama-3.3-70B-Instruct", 70'553'706'496},
    {"meta-llama/Llama-Guard-3-8B", 8'030'261'248},
    {"deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", 8'190'735'360},
    {"deepseek-ai/DeepSeek-V3.1-Terminus", 671'026'404'352},
    {"deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct", 15'706'484'224},
    {"Qwen/Qwen3-Coder-Next", 79'674'391'296},
    {"Qwen/Qwen3.6-27B", 26'895'998'464},
    {"Qwen/Qwen3.6-35B-A3B", 34'660'610'688},
    {"mistralai/Mathstral-7B-v0.1", 7'248'023'552},
    {"mistralai/Mistral-Large-Instruct-2411", 122'610'069'504},
    {"HuggingFaceTB/SmolLM-1.7B", 1'711'376'384},
    {"moonshotai/Kimi-K2.5", 1'026'408'209'408},
};

// Likewise, multiplied out of the shapes alone: no printed total was at hand to compare with.
constexpr Row kTrainedShapes[] = {
    {"Qwen/Qwen3.5-4B", 4'205'751'296},
    {"zai-org/GLM-4.7-Flash", 29'943'390'976},
};

// All elements of the checkpoint as others print them, with the tower of images and the buffers that balance experts.
constexpr Row kFiles[] = {
    {"allenai/OLMoE-1B-7B-0924", 6'919'161'856},
    {"mistralai/Ministral-8B-Instruct-2410", 8'019'808'256},
    {"CohereLabs/c4ai-command-r7b-12-2024", 8'028'033'024},
    {"CohereLabs/aya-expanse-8b", 8'028'033'024},
    {"stabilityai/stablelm-2-1_6b", 1'644'515'328},
    {"stabilityai/stablelm-3b-4e1t", 2'795'443'200},
    {"baidu/ERNIE-4.5-0.3B-PT", 360'748'032},
    {"ibm-granite/granite-3.3-2b-instruct", 2'533'539'840},
    {"ibm-granite/granite-3.1-1b-a400m-base", 1'334'628'352},
    {"ibm-granite/granite-3.1-3b-a800m-base", 3'298'793'472},
    {"ibm-granite/granite-4.0-h-small", 32'207'337'984},
    {"ibm-granite/granite-4.0-h-micro", 3'191'396'096},
    {"ibm-granite/granite-4.0-micro", 3'402'836'480},
    {"openbmb/MiniCPM-2B-sft-bf16", 2'724'880'896},
    {"tiiuae/Falcon3-1B-Base", 1'669'408'768},
    {"tiiuae/Falcon3-3B-Base", 3'227'655'168},
    {"nvidia/NVIDIA-Nemotron-Nano-9B-v2", 8'888'227'328},
    {"upstage/SOLAR-10.7B-v1.0", 10'731'524'096},
    {"zai-org/GLM-4-9B-0414", 9'400'279'040},
    {"inclusionAI/Ling-mini-2.0", 16'255'643'392},
    {"Qwen/Qwen3-VL-8B-Instruct", 8'767'123'696},
    {"Qwen/Qwen3-VL-32B-Instruct", 33'357'390'064},
    {"Qwen/Qwen3-VL-30B-A3B-Instruct", 31'070'754'032},
    {"Qwen/Qwen3-VL-235B-A22B-Instruct", 235'670'022'896},
    {"Qwen/Qwen2.5-VL-3B-Instruct", 3'754'622'976},
    {"Qwen/Qwen2.5-VL-7B-Instruct", 8'292'166'656},
    {"Qwen/Qwen2.5-VL-32B-Instruct", 33'452'718'336},
    {"Qwen/Qwen2-VL-2B-Instruct", 2'208'985'600},
    {"Qwen/Qwen2-VL-7B-Instruct", 8'291'375'616},
    {"Qwen/Qwen2-VL-72B-Instruct", 73'405'560'320},
    {"rednote-hilab/dots.llm1.inst", 142'774'381'696},
    {"LGAI-EXAONE/EXAONE-4.0-32B", 32'003'216'384},
    {"LGAI-EXAONE/EXAONE-4.0-1.2B", 1'279'391'488},
    {"LGAI-EXAONE/EXAONE-3.5-32B-Instruct", 32'003'200'000},
    {"nvidia/Mistral-NeMo-Minitron-8B-Instruct", 8'414'105'600},
    {"inclusionAI/Ling-lite", 16'801'974'272},
    {"zai-org/GLM-4.5V", 107'710'933'120},
    {"Qwen/Qwen3.5-9B", 9'409'813'744},
    {"baichuan-inc/Baichuan-M2-32B", 32'763'876'352},
    {"01-ai/Yi-1.5-34B", 34'388'917'248},
    {"Qwen/Qwen-7B", 7'721'324'544},
    {"HuggingFaceTB/SmolLM-135M", 134'515'008},
    {"CohereLabs/c4ai-command-a-03-2025", 111'057'580'032},
    {"BSC-LT/salamandra-2b", 2'253'490'176},
    {"BSC-LT/salamandra-7b", 7'768'117'248},
    {"BSC-LT/ALIA-40b", 40'433'885'184},
};

/// What a card says of a model in words: billions in all, with its tower of images, and of a token; 0 where it is
/// silent.
struct Card {
  const char* name;
  double total, active;
};

constexpr Card kCards[] = {
    {"mistralai/Mistral-Large-3-675B-Base-2512", 673, 39},
    {"mistralai/Devstral-2-123B-Instruct-2512", 123, 0},
    {"mistralai/Mistral-Small-4-119B-2603", 119, 0},
    {"CohereLabs/command-a-reasoning-08-2025", 111, 0},
    {"tencent/Hunyuan-A13B-Instruct", 80, 13},
    {"tencent/Hy3-preview", 295, 21},
    {"tencent/Hunyuan-1.8B-Instruct", 1.8, 0},
    {"baidu/ERNIE-4.5-300B-A47B-PT", 300, 47},
    {"arcee-ai/Trinity-Nano-Preview", 6, 1},
    {"arcee-ai/Trinity-Mini", 26, 0},
    {"arcee-ai/Trinity-Large-Preview", 398, 13},
    {"arcee-ai/AFM-4.5B", 4.5, 0},
    {"PrimeIntellect/INTELLECT-1", 10, 0},
    {"ServiceNow-AI/Apriel-1.5-15b-Thinker", 14.9, 0},
    {"nvidia/NVIDIA-Nemotron-Nano-12B-v2", 12, 0},
    {"nvidia/Nemotron-H-47B-Base-8K", 47, 0},
    {"ibm-granite/granite-4.0-h-1b", 1.5, 0},
    {"ibm-granite/granite-4.0-h-350m", 0.35, 0},
    {"facebook/cwm", 32, 0},
};

// Likewise, multiplied out of the shapes alone: no printed total was at hand to compare with.
constexpr Row kShapes[] = {
    {"mistralai/Codestral-22B-v0.1", 22'247'282'688},
    {"CohereLabs/c4ai-command-r-v01", 34'980'831'232},
    {"baidu/ERNIE-4.5-21B-A3B-PT", 21'825'437'888},
    {"Qwen/Qwen3-VL-2B-Instruct", 2'127'532'032},
    {"Qwen/Qwen3-VL-4B-Instruct", 4'437'815'808},
    // with the bias of the prediction module's router
    {"inclusionAI/Ling-flash-2.0", 102'889'705'472},
    {"inclusionAI/Ring-1T", 999'705'328'640},
    {"microsoft/Phi-3.5-MoE-instruct", 41'873'153'344},
    {"upstage/Solar-Open-100B", 102'651'799'552},
    {"LLM360/K2", 65'286'184'960},
    {"EleutherAI/gpt-neo-125m", 125'198'592},
    {"EleutherAI/gpt-neo-1.3B", 1'315'575'808},
    {"EleutherAI/gpt-neo-2.7B", 2'651'307'520},
    {"bigcode/starcoder", 15'517'456'384},
    {"togethercomputer/RedPajama-INCITE-Base-3B-v1", 2'775'864'320},
    {"codellama/CodeLlama-70b-hf", 68'976'910'336},
    {"CohereForAI/c4ai-command-r-08-2024", 32'296'476'672},
    {"CohereLabs/aya-expanse-32b", 32'296'476'672},
    {"CohereLabs/aya-23-35B", 34'980'831'232},
    {"CohereForAI/c4ai-command-r-plus", 103'810'674'688},
    {"tiiuae/falcon-11B", 11'102'822'400},
    {"ibm-granite/granite-3b-code-base", 3'482'503'680},
    {"ibm-granite/granite-8b-code-instruct-4k", 8'054'910'976},
    {"ibm-granite/granite-20b-code-base-8k", 20'066'993'152},
    {"ibm-granite/granite-34b-code-base-8k", 33'715'603'456},
    {"openbmb/MiniCPM3-4B", 4'073'875'968},
    {"Qwen/Qwen1.5-110B-Chat", 111'209'914'368},
    {"facebook/galactica-125m", 125'030'400},
    {"facebook/galactica-1.3b", 1'315'201'024},
    {"facebook/galactica-6.7b", 6'657'359'872},
    {"facebook/galactica-30b", 29'972'590'592},
    {"facebook/galactica-120b", 121'341'747'200},
};

}  // namespace

TEST_CASE("names of checkpoints find as many elements as their files hold") {
  const auto elements = [](const plan::Model& m) {
    return plan::model_parameters(m).total + m.extra_parameters + plan::score_bias_elements(m);
  };
  const auto compare = [&](const Row& row) {
    CAPTURE(std::string(row.name));
    const auto model = plan::load_model(row.name, plan::StoreOptions{});
    REQUIRE(model.has_value());
    CHECK(elements(model->value) == row.total);
  };
  for (const Row& row : kFiles) compare(row);
  for (const Row& row : kShapes) compare(row);
}

TEST_CASE("names of checkpoints find models of the size that their cards state") {
  for (const Card& card : kCards) {
    CAPTURE(std::string(card.name));
    const auto model = plan::load_model(card.name, plan::StoreOptions{});
    REQUIRE(model.has_value());
    const plan::ModelParameters counted = plan::model_parameters(model->value);
    const double total = static_cast<double>(counted.total + model->value.extra_parameters) / 1e9;
    CHECK(total == doctest::Approx(card.total).epsilon(0.03));  // two figures
    if (card.active > 0) CHECK(static_cast<double>(counted.active) / 1e9 == doctest::Approx(card.active).epsilon(0.03));
  }
}

TEST_CASE("names of checkpoints find the model whose layers they have") {
  const auto compare = [](const Row& row) {
    CAPTURE(std::string(row.name));
    const auto model = plan::load_model(row.name, plan::StoreOptions{});
    REQUIRE(model.has_value());
    CHECK(plan::model_parameters(model->value).total == row.total);
  };
  for (const Row& row : kCheckpoints) compare(row);
  for (const Row& row : kTrainedShapes) compare(row);
}

TEST_CASE("a checkpoint with a part that is not modelled is refused by that part") {
  for (const char* name : {"google/gemma-4-31B-it",
                           "deepseek-ai/DeepSeek-V4-Flash",
                           "tiiuae/Falcon-H1-7B-Base",
                           "ai21labs/Jamba-v0.1",
                           "Zyphra/Zamba2-7B",
                           "moonshotai/Kimi-Linear-48B-A3B-Base",
                           "meta-llama/Llama-3.2-11B-Vision-Instruct",
                           "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
                           "nvidia/Llama-3_1-Nemotron-51B-Instruct",
                           "nvidia/Llama-3_1-Nemotron-Ultra-253B-v1",
                           "stepfun-ai/step3",
                           "Snowflake/snowflake-arctic-base",
                           "microsoft/Phi-3-small-8k-instruct",
                           "tencent/Tencent-Hunyuan-Large",
                           "mlx-community/Hunyuan-A52B-Instruct-3bit",
                           "arctic",
                           "nemotron-super-49b",
                           "llama-nemotron-253b",
                           "google/recurrentgemma-9b",
                           "microsoft/bitnet-b1.58-2B-4T",
                           "apple/OpenELM-3B"}) {
    CAPTURE(std::string(name));
    const plan::Error error = refusal_of(name);
    const plan::Unmodelled* row = plan::unmodelled_name(name);
    REQUIRE(row != nullptr);
    CHECK(error.message.find(row->part) != std::string::npos);
    for (const std::string& help : error.help) CHECK(help.find("similar") == std::string::npos);
  }
  CHECK(refusal_of("state-spaces/mamba2-2.7b").message.find("Mamba-1") == std::string::npos);
  CHECK(refusal_of("state-spaces/mamba-2.8b").message.find("Mamba-1") != std::string::npos);
  CHECK(plan::unmodelled_name("meta-llama/Llama-3.1-8B") == nullptr);
  CHECK(plan::unmodelled_name("google/gemma-3-27b-it") == nullptr);
  CHECK(plan::unmodelled_name("") == nullptr);
}

namespace {

/// Keys that shape layers in some family of checkpoints.
constexpr const char* kShaping[] = {"altup_num_inputs",
                                    "attention_k_eq_v",
                                    "attn_layer_indices",
                                    "attn_type_list",
                                    "block_configs",
                                    "cla_share_factor",
                                    "cross_attention_layers",
                                    "decoder_sparse_step",
                                    "first_k_dense_replace",
                                    "global_head_dim",
                                    "hidden_size_per_layer_input",
                                    "hybrid_layer_pattern",
                                    "hybrid_override_pattern",
                                    "index_n_heads",
                                    "kv_lora_rank",
                                    "layer_types",
                                    "linear_num_value_heads",
                                    "mamba_n_heads",
                                    "mlp_only_layers",
                                    "moe_intermediate_size",
                                    "moe_layer_freq",
                                    "moe_num_experts",
                                    "n_routed_experts",
                                    "n_shared_experts",
                                    "num_experts",
                                    "num_kv_shared_layers",
                                    "num_local_experts",
                                    "num_nextn_predict_layers",
                                    "num_shared_experts",
                                    "qk_layernorm",
                                    "qkv_bias",
                                    "shared_intermediate_size",
                                    "ssm_state_size",
                                    "swa_head_dim",
                                    "use_bias",
                                    "use_cla",
                                    "use_parallel_residual",
                                    "use_qk_norm",
                                    "use_sliding_window",
                                    "v_head_dim"};

}  // namespace

TEST_CASE("what shapes layers in one family is read or named in every other") {
  std::ifstream lines(std::string(PLAN_SOURCE_DIR) + "/tests/presets/family_counts.jsonl");
  std::string last;
  int families = 0;
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json config = nlohmann::json::parse(line)["config"];
    if (config["model_type"] == last) continue;
    last = config["model_type"], ++families;
    for (const char* key : kShaping) {
      CAPTURE(last);
      CAPTURE(std::string(key));
      nlohmann::json edited = config;
      edited[key] = {{"not", "a value"}};
      const auto model = plan::read_config_json(edited.dump(), "config.json");
      REQUIRE_FALSE(model.has_value());
      CHECK(std::ranges::any_of(model.error(), [&](const plan::Error& error) {
        return error.message.find("`" + std::string(key) + "`") != std::string::npos;
      }));
    }
  }
  CHECK(families >= 45);
}

TEST_CASE("a key that says nothing is no reason to refuse") {
  const std::string llama =
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, )"
      R"("num_attention_heads": 4, "vocab_size": 100)";
  for (const char* more : {"\"num_experts\": 0", "\"use_cla\": false", "\"sparse_config\": null",
                           "\"mlp_only_layers\": []", "\"attn_type_list\": [0, 0]", "\"rope_theta\": 10000",
                           "\"block_types\": [\"attention\", \"full_attention\", 0]"})
    CHECK(plan::read_config_json(llama + ", " + more + "}", "config.json").has_value());
  for (const char* more :
       {"\"attn_type_list\": [0, 1]", "\"attn_type_list\": [1]", "\"use_cla\": true", "\"sparse_config\": \"x\"",
        "\"attn_type_list\": [\"attention\", \"recurrent\"]", "\"attn_type_list\": [\"linear_attention\"]"}) {
    const auto model = plan::read_config_json(llama + ", " + more + "}", "config.json");
    REQUIRE_FALSE(model.has_value());
    CHECK(model.error().front().code == "unread_key");
  }
  CHECK_FALSE(plan::read_config_json(llama + ", \"num_experts\": 8}", "config.json").has_value());
}

TEST_CASE("a config of a family that is not modelled is refused by that part") {
  for (const char* type : {"gemma4_text", "falcon_h1", "jamba", "zamba2", "deepseek_v4", "kimi_linear", "lfm2"}) {
    const auto model = plan::read_config_json("{\"model_type\": \"" + std::string(type) + "\"}", "config.json");
    REQUIRE_FALSE(model.has_value());
    CHECK(model.error().front().code == "unsupported");
    CHECK(model.error().front().message.find(plan::unmodelled_type(type)->part) != std::string::npos);
  }
  CHECK(plan::unmodelled_type("llama") == nullptr);
}

TEST_CASE("the name of a family, in any version, is answered with its models") {
  for (const char* word : {"llama", "qwen", "gemma", "olmo", "llama-5", "llama3.3", "Qwen4-32B", "gemma-9"}) {
    CAPTURE(word);
    const auto found = plan::load_model(word, plan::StoreOptions{});
    REQUIRE_FALSE(found.has_value());
    const std::string help = found.error().front().help.front();
    CAPTURE(help);
    CHECK((help.starts_with("with `") || help.starts_with("models of its family")));
    std::string family = std::string(word).substr(0, std::string_view(word).find_first_of("-0123456789"));
    for (char& c : family) c = static_cast<char>(std::tolower(c));
    CHECK(help.find(family, help.find("name:")) != std::string::npos);
  }
}

TEST_CASE("a slip in a name suggests no model of another size") {
  std::mt19937 random(20261125);
  std::size_t offered = 0;
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Model, plan::StoreOptions{})) {
    const std::set<std::string> sizes = sizes_in(entry.name);
    if (sizes.size() != 1) continue;
    for (const char* size : {"", "123b", "0.7b", "19b"}) {
      std::string word = entry.name;
      if (*size != '\0') word.replace(word.find("-" + *sizes.begin()) + 1, sizes.begin()->size(), size);
      word[random() % word.find('-')] = 'q';  // no family is called so
      const auto found = plan::load_model(word, plan::StoreOptions{});
      if (found.has_value()) continue;
      CAPTURE(word);
      for (const std::string& help : found.error().front().help) {
        if (!help.starts_with("a model with a similar name exists: `")) continue;
        CAPTURE(help);
        ++offered;
        std::string name = help.substr(help.find('`') + 1);
        name.pop_back();
        std::set<std::string> lower;
        for (std::string one : sizes_in("-" + name)) {
          std::transform(one.begin(), one.end(), one.begin(), [](unsigned char c) { return std::tolower(c); });
          lower.insert(one);
        }
        CHECK(lower.count(*sizes_in(word).begin()) == 1);
      }
    }
  }
  CHECK(offered > 20);
  for (const char* word : {"deepseek-r1:70b", "facebook/xglm-2.9B"}) {
    const auto found = plan::load_model(word, plan::StoreOptions{});
    REQUIRE_FALSE(found.has_value());
    for (const std::string& help : found.error().front().help)
      CHECK_MESSAGE(help.find("similar name") == std::string::npos, word, help);
  }
}
