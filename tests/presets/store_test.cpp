#include "presets/store.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "embedded_only.hpp"
#include "formulas/digest.hpp"
#include "presets/default_cluster.hpp"
#include "presets/model_names.hpp"
#include "presets/reader.hpp"
#include "temporary_folder.hpp"

using plan::PresetEntry;
using plan::PresetKind;
using plan::StoreOptions;

namespace {

std::string small_model(const std::string& name, int width) {
  std::ostringstream text;
  text << "preset: model/1\nname: " << name << "\naliases: [tiny-alias]\nhidden: 64\nvocab: 128\nattention:\n"
       << "  heads: 4\n  head_dim: 16\ndense:\n  width: " << width << "\nlayers: 2 x attention+dense\n";
  return text.str();
}

}  // namespace

TEST_CASE("a preset is found by name and alias in any case") {
  for (const char* word : {"llama3-405b", "405b", "405B", "Llama-3.1-405B", "llama3.1-405b",
                           "meta-llama/llama-3.1-405b", "LLAMA3.1_405B", "Llama 3.1 405B"}) {
    CAPTURE(std::string(word));
    const auto found = plan::load_model(word, plan::kEmbeddedOnly);
    REQUIRE(found.has_value());
    CHECK(found->name == "llama3-405b");
    CHECK(found->origin == "embedded");
    CHECK(found->digest.size() == 64);
  }
  CHECK(plan::load_model("DeepSeek-V3", plan::kEmbeddedOnly)->value.depth() == 61);
  CHECK(plan::load_model("v3", plan::kEmbeddedOnly)->name == "deepseek-v3");
  CHECK(plan::load_gpu("H100", plan::kEmbeddedOnly)->name == "h100-sxm");
  CHECK(plan::load_cluster("dgx-h100", plan::kEmbeddedOnly)->value.gpu.name == "h100-sxm");
}

TEST_CASE("models are found as published runs spell them") {
  struct Row {
    const char* word;
    const char* name;
  };
  constexpr Row kRows[] = {
      {"DeepSeek V3", "deepseek-v3"},
      {"DeepSeekV3", "deepseek-v3"},
      {"DeepSeek V3 671B", "deepseek-v3"},
      {"Kimi K2", "kimi-k2"},
      {"GPT OSS 120B", "gpt-oss-120b"},
      {"GPT-OSS 20B", "gpt-oss-20b"},
      {"LLAMA3_70B", "llama3-70b"},
      {"Llama 3.1 8B", "llama3-8b"},
      {"Llama2 70B", "llama2-70b"},
      {"Llama 4 Maverick 400B", "llama4-maverick"},
      {"Nemotron4 340B", "nemotron4-340b"},
      {"Nemotron-4-15B", "nemotron4-15b"},
      {"Nemotron_3_Super", "nemotron3-super-120b-a12b"},
      {"Nemotron-H 56B", "nemotron-h-56b"},
      {"Nemotron_3_5_Lightning", "nemotron3.5-lightning-30b-a3b"},
      {"Qwen3 MoE 30B", "qwen3-30b-a3b"},
      {"Qwen3_235B_a22B", "qwen3-235b-a22b"},
      {"Qwen2-57B-A14B", "qwen2-57b-a14b"},
      {"Qwen2.5-14B", "qwen2.5-14b"},
      {"Mixtral-8x22B", "mixtral-8x22b"},
      {"Grok-1", "grok-1"},
      {"MT-NLG-530B", "mt-nlg-530b"},
      {"BLOOM-176B", "bloom-176b"},
      {"OPT-175B", "opt-175b"},
      {"GPT-NeoX-20B", "gpt-neox-20b"},
      {"Pythia-6.9B", "pythia-6.9b"},
      {"OLMo-3-7B", "olmo3-7b"},
      {"InternLM-20B", "internlm-20b"},
      {"GLM-130B", "glm-130b"},
      {"BloombergGPT-50B", "bloomberggpt-50b"},
      {"PaLM-540B", "palm-540b"},
      {"Skywork-MoE-146B", "skywork-moe-146b"},
      {"TinyLlama-1.1B", "tinyllama-1.1b"},
      {"StableLM-Alpha-3B", "stablelm-alpha-3b"},
      {"phi-1.5", "phi-1.5"},
      {"LLaMA-65B", "llama1-65b"},
      {"GPT3-1.3B", "gpt3-1.3b"},
  };
  for (const Row& row : kRows) {
    CAPTURE(std::string(row.word));
    const auto found = plan::load_model(row.word, plan::kEmbeddedOnly);
    REQUIRE(found.has_value());
    CHECK(found->name == row.name);
  }
}

TEST_CASE("checkpoints have the layers of the model that they were made from") {
  struct Row {
    const char* word;
    const char* name;
    bool exact;
  };
  constexpr Row kRows[] = {
      {"NousResearch/Meta-Llama-3-8B", "llama3-8b", true},
      {"unsloth/Meta-Llama-3.1-8B-bnb-4bit", "llama3-8b", false},
      {"Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b", false},
      {"Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b", false},
      {"deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama3-8b", true},
      {"mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b", false},
      {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2", true},
      {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3", true},
      {"EleutherAI/pythia-1.4b-deduped", "pythia-1.4b", false},
      {"mistralai/Ministral-3-3B-Instruct-2512-BF16", "ministral3-3b", false},
      {"phi-2", "phi-2", true},
      {"ckpts/Meta-Llama-3.1-8B/mcore-tp4-pp2", "llama3-8b", true},
      {"ckpts/Qwen2.5-0.5B-Chat-to-mcore", "qwen2.5-0.5b", false},
      {"ckpts/Mistral-7B-v0.2-to-megatron-tp1-pp1", "mistral-7b-v0.2", true},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.word);
    const auto found = load_model(row.word, plan::kEmbeddedOnly);
    REQUIRE(found);
    CHECK(found->name == row.name);
    CHECK(found->exact == row.exact);
  }
  for (const char* word : {"-instruct", "nobody/", "/", "nobody/nothing-instruct", "./qwen3-8b", "instruct"})
    CHECK_FALSE(load_model(word, plan::kEmbeddedOnly));
}

TEST_CASE("an unknown name suggests the nearest") {
  const auto found = plan::load_model("llama3-504b", plan::kEmbeddedOnly);
  REQUIRE_FALSE(found.has_value());
  REQUIRE(found.error().size() == 1);
  const plan::Error& error = found.error().front();
  CHECK(error.code == "unknown_model");
  CHECK(error.message == "unknown model `llama3-504b`");
  REQUIRE(error.help.size() == 3);
  CHECK(error.help[0] == "models of its family, the nearest in size first: `llama3-405b`, `llama3-70b`, `llama3-8b`");
  CHECK(error.help[1] == "any other by its checkpoint's configuration: `--model path/to/config.json`");
  CHECK(error.help[2] == "list all with `plan list models`, or give a file: --model ./mine.yaml");
  // A version or a size is no slip of another.
  for (const char* other : {"mistralai/Mistral-Large-5", "microsoft/phi-5", "llama3-80x", "gpt-4"}) {
    CAPTURE(other);
    const auto unknown = plan::load_model(other, plan::kEmbeddedOnly);
    REQUIRE_FALSE(unknown.has_value());
    for (const std::string& help : unknown.error().front().help) CHECK(help.find("similar name") == std::string::npos);
  }
  CHECK(plan::load_model("lama3-405b", plan::kEmbeddedOnly).error().front().help[0] ==
        "a model with a similar name exists: `llama3-405b`");
  CHECK(plan::load_gpu("h100-smx", plan::kEmbeddedOnly).error().front().help[0] ==
        "a GPU with a similar name exists: `h100-sxm`");
  CHECK(plan::load_cluster("zzz", plan::kEmbeddedOnly).error().front().help.size() == 1);
  CHECK_FALSE(plan::load_model("", plan::kEmbeddedOnly).has_value());
  CHECK_FALSE(plan::load_model(std::string(5000, 'x'), plan::kEmbeddedOnly).has_value());
}

TEST_CASE("a word that is in names of presets brings those names") {
  std::map<std::string, std::set<std::string>> names;
  for (const plan::PresetEntry& entry : plan::list_presets(plan::PresetKind::Gpu, {})) {
    std::stringstream parts(entry.name);
    for (std::string part; std::getline(parts, part, '-');) names[part].insert(entry.name);
  }
  for (const auto& entry : names) {
    const auto gpu = plan::load_gpu(entry.first, {});
    if (gpu) continue;  // an alias
    CAPTURE(entry.first);
    std::string help;
    for (const std::string& line : gpu.error().front().help) help += line + "\n";
    std::size_t told = 0;
    for (const std::string& name : entry.second) told += help.find(name) != std::string::npos ? 1 : 0;
    CHECK(told == std::min<std::size_t>(entry.second.size(), 12));
  }
}

TEST_CASE("a colon before the size is Ollama's way to write the hyphen") {
  for (const PresetEntry& entry : plan::list_presets(PresetKind::Model, plan::kEmbeddedOnly))
    for (std::size_t at = entry.name.find('-'); at != std::string::npos; at = entry.name.find('-', at + 1)) {
      std::string word = entry.name;
      word[at] = ':';
      CAPTURE(word);
      const auto found = plan::load_model(word, plan::kEmbeddedOnly);
      REQUIRE(found.has_value());
      CHECK(found->value.name == entry.name);
    }
}

TEST_CASE("what a checkpoint's name says of family and size") {
  struct Row {
    const char* name;
    const char* family;
    double parameters;
  };
  for (const Row& row :
       {Row{"Qwen/Qwen3.5-0.8B-Base", "qwen35", 0.8e9}, Row{"HuggingFaceTB/SmolLM2-360M", "smollm2", 360e6},
        Row{"ERNIE-4.5-21B-A3B-PT", "ernie45", 21e9}, Row{"ling_1t", "ling", 1e12}, Row{"gpt2", "", 0.0},
        Row{"7b", "", 0.0}, Row{"mixtral-8x7b", "", 0.0}, Row{"x-0b", "", 0.0}, Row{"", "", 0.0}}) {
    CAPTURE(row.name);
    const plan::FamilyAndSize said = plan::family_and_size(row.name);
    CHECK(said.family == row.family);
    CHECK(said.parameters == doctest::Approx(row.parameters));
  }
}

TEST_CASE("a size that nobody published suggests the models of its family") {
  for (const PresetEntry& entry : plan::list_presets(PresetKind::Model, plan::kEmbeddedOnly)) {
    const plan::FamilyAndSize said = plan::family_and_size(entry.name);
    if (said.family.empty()) continue;
    const std::string word = fmt::format("nobody/{}-{}M-Instruct", said.family, std::lround(said.parameters / 1e6) + 1);
    CAPTURE(word);
    const auto found = plan::load_model(word, plan::kEmbeddedOnly);
    REQUIRE_FALSE(found.has_value());
    const std::string& help = found.error().front().help[0];
    CHECK(help.starts_with("models of its family, the nearest in size first: `"));
    CHECK(help.find("`" + entry.name + "`") != std::string::npos);
  }
}

TEST_CASE("names and aliases are unique within a kind") {
  for (const PresetKind kind : {PresetKind::Model, PresetKind::Gpu, PresetKind::Cluster}) {
    std::map<std::string, std::string> seen;  // without what look-up ignores
    std::map<std::string, std::string> whole;
    for (const PresetEntry& entry : plan::list_presets(kind, plan::kEmbeddedOnly))
      for (const std::string& alias : entry.aliases) whole.emplace(alias, entry.name);
    for (const PresetEntry& entry : plan::list_presets(kind, plan::kEmbeddedOnly)) {
      std::vector<std::string> words = entry.aliases;
      words.push_back(entry.name);
      for (const std::string& alias : entry.aliases) {
        std::string base = alias.substr(alias.rfind('/') + 1);
        std::transform(base.begin(), base.end(), base.begin(), [](unsigned char c) { return std::tolower(c); });
        const auto other = whole.find(base);  // `k2` of Kimi goes before LLM360/K2 without its owner
        if (other == whole.end() || other->second == entry.name) words.push_back(base);
      }
      for (std::string word : words) {
        if (kind == PresetKind::Model) CHECK(plan::load_model(word, plan::kEmbeddedOnly)->value.name == entry.name);
        std::erase_if(word, [](char c) { return c == '-' || c == '_'; });
        std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
        CAPTURE(word);
        CHECK(seen.emplace(word, entry.name).first->second == entry.name);
      }
    }
    CHECK(seen.size() > 10);
  }
}

TEST_CASE("every embedded preset loads and is named after its file") {
  for (const PresetEntry& entry : plan::list_presets(PresetKind::Model, plan::kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const auto found = plan::load_model(entry.name, plan::kEmbeddedOnly);
    REQUIRE(found.has_value());
    CHECK(found->value.name == entry.name);
    const auto again = plan::read_model(plan::write_model(found->value, "source"), "again");
    REQUIRE(again.has_value());
    CHECK(*again == found->value);
  }
  for (const PresetEntry& entry : plan::list_presets(PresetKind::Gpu, plan::kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const auto found = plan::load_gpu(entry.name, plan::kEmbeddedOnly);
    REQUIRE(found.has_value());
    CHECK(found->value.name == entry.name);
  }
  for (const PresetEntry& entry : plan::list_presets(PresetKind::Cluster, plan::kEmbeddedOnly)) {
    CAPTURE(entry.name);
    const auto found = plan::load_cluster(entry.name, plan::kEmbeddedOnly);
    REQUIRE(found.has_value());
    CHECK(found->value.name == entry.name);
  }
}

// A misspelt key that a reader passes over is a number that nobody uses.
TEST_CASE("every map of every preset refuses a key that it does not know") {
  int maps = 0;
  for (const PresetKind kind : {PresetKind::Model, PresetKind::Gpu, PresetKind::Cluster})
    for (const PresetEntry& entry : plan::list_presets(kind, plan::kEmbeddedOnly)) {
      std::vector<std::string> lines;
      std::istringstream text(entry.text);
      for (std::string line; std::getline(text, line);) lines.push_back(line);
      for (std::size_t at = 0; at < lines.size(); ++at) {
        const std::size_t indent = lines[at].find_first_not_of(' ');
        const std::size_t colon = lines[at].find(':'), after = lines[at].find_first_not_of(' ', colon + 1);
        const bool opens = colon != std::string::npos && (after == std::string::npos || lines[at][after] == '#');
        if (!opens || lines[at][indent] == '-' || at + 1 == lines.size()) continue;
        const std::size_t inner = lines[at + 1].find_first_not_of(' ');
        if (inner <= indent || lines[at + 1][inner] == '-') continue;  // a list
        std::string edited;
        for (std::size_t i = 0; i < lines.size(); ++i)
          edited += lines[i] + "\n" + (i == at ? std::string(inner, ' ') + "zz_nobody: 1\n" : "");
        CAPTURE(edited);
        const auto errors = [&]() -> plan::Errors {
          const auto of = [](const auto& read) { return read ? plan::Errors{} : read.error(); };
          if (kind == PresetKind::Model) return of(plan::read_model(edited, "edited"));
          if (kind == PresetKind::Gpu) return of(plan::read_gpu(edited, "edited"));
          return of(plan::read_cluster(edited, "edited", [](std::string_view name) -> plan::Result<plan::Gpu> {
            const auto gpu = plan::load_gpu(name, plan::kEmbeddedOnly);
            if (!gpu) return tl::unexpected(gpu.error());
            return gpu->value;
          }));
        }();
        CHECK(std::any_of(errors.begin(), errors.end(), [](const plan::Error& error) {
          return error.message.find("zz_nobody") != std::string::npos;
        }));
        ++maps;
      }
    }
  CHECK(maps >= 500);
}

TEST_CASE("every number of a preset names its source") {
  for (const PresetKind kind : {PresetKind::Model, PresetKind::Gpu, PresetKind::Cluster})
    for (const PresetEntry& entry : plan::list_presets(kind, plan::kEmbeddedOnly)) {
      std::istringstream lines(entry.text);
      std::string line;
      bool in_aliases = false, sourced = false;
      while (std::getline(lines, line)) {
        if (line.starts_with("preset:") || line.starts_with("name:")) continue;
        if (line.starts_with("aliases:") || in_aliases) {
          in_aliases = line.find(']') == std::string::npos;
          continue;
        }
        const std::size_t colon = line.find(':');
        REQUIRE(colon != std::string::npos);
        const bool section = colon + 1 == line.size();
        const std::string key = line.substr(0, colon);
        if (section || key.ends_with("- name") || key.ends_with(" of")) continue;
        CAPTURE(entry.name);
        CAPTURE(line);
        const std::size_t hash = line.find("  # ");
        REQUIRE(hash != std::string::npos);
        const std::string source = line.substr(hash + 4);
        CHECK(source.size() >= 4);
        CHECK((sourced || !source.starts_with("same")));  // the first one says what
        sourced = true;
      }
    }
}

TEST_CASE("a file of the user wins over the embedded one") {
  const plan::TemporaryFolder first, second;
  first.write("models/mine.yaml", small_model("mine", 256));
  second.write("models/mine.yaml", small_model("mine", 512));
  second.write("models/llama3-8b.yaml", small_model("llama3-8b", 1024));
  StoreOptions options;
  options.path = {first.path().string()};
  options.data_home = second.path().string();
  CHECK(plan::load_model("mine", options)->value.kinds[0].dense.width == 256);
  CHECK(plan::load_model("tiny-alias", options)->origin == first.at("models/mine.yaml"));
  CHECK(plan::load_model("llama3-8b", options)->value.kinds[0].dense.width == 1024);
  CHECK(plan::load_model("llama3-70b", options)->origin == "embedded");
  std::size_t mine = 0;
  for (const PresetEntry& entry : plan::list_presets(PresetKind::Model, options)) mine += entry.name == "mine";
  CHECK(mine == 1);
  CHECK(plan::list_presets(PresetKind::Model, options).size() ==
        plan::list_presets(PresetKind::Model, plan::kEmbeddedOnly).size() + 1);
  std::set<std::string> names;
  for (const PresetEntry& entry : plan::list_presets(PresetKind::Model, options)) {
    CHECK_FALSE(entry.name.empty());
    CHECK(names.insert(entry.name).second);
  }
}

TEST_CASE("a path is read as it stands") {
  const plan::TemporaryFolder folder;
  folder.write("x.yaml", small_model("from-file", 256));
  folder.write("bad.yaml", "preset: model/1\nname: x\nhiden: 64\n");
  CHECK(plan::load_model(folder.at("x.yaml"), plan::kEmbeddedOnly)->name == "from-file");
  const auto missing = plan::load_model("./no/such.yaml", plan::kEmbeddedOnly);
  CHECK(missing.error().front().code == "unreadable_file");
  const auto bad = plan::load_model(folder.at("bad.yaml"), plan::kEmbeddedOnly);
  REQUIRE_FALSE(bad.has_value());
  CHECK(bad.error().size() >= 2);
  CHECK(bad.error().front().place.file == folder.at("bad.yaml"));
}

TEST_CASE("a GPU brings what was measured on it or on its like") {
  CHECK(plan::load_gpu("h100-sxm", plan::kEmbeddedOnly)->value.collectives.size() > 3);
  CHECK(plan::load_gpu("h800-sxm", plan::kEmbeddedOnly)->value.collectives.size() > 3);
  CHECK(plan::load_cluster("h800", plan::kEmbeddedOnly)->value.gpu.collectives.size() > 3);
}

TEST_CASE("a GPU comes in its usual cluster") {
  const auto dgx = plan::load_cluster_of_gpu("h100-sxm", plan::kEmbeddedOnly);
  REQUIRE(dgx.has_value());
  CHECK(dgx->value.scale_up_size() == 8);
  CHECK(dgx->value.tiers.back().size == plan::kAnyGpus);
  CHECK(dgx->value.tiers.back().bandwidth.value == 50e9);
  const auto rack = plan::load_cluster_of_gpu("gb200", plan::kEmbeddedOnly);
  CHECK(rack->value.scale_up_size() == 72);
  CHECK(rack->value.gpus_per_node == 4);
  CHECK(plan::load_cluster_of_gpu("rtx-4090", plan::kEmbeddedOnly)->value.tiers.front().bandwidth.value == 31.5e9);
}

TEST_CASE("a digest is what sha256sum prints") {
  CHECK(plan::sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(plan::sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(plan::sha256(std::string(1000, 'a')) == "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}
