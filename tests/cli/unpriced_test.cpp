// Every number of a hardware file, edited, moves a figure or is told; and what a model's file does not publish is not
// said to be published.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "formulas/text.hpp"
#include "presets/entries.hpp"
#include "temporary_folder.hpp"

using namespace plan;

namespace {

using Json = nlohmann::ordered_json;

Json report_of(std::vector<std::string> words) {
  words.emplace_back("--json");
  Streams streams;
  run_command_line(words, streams);
  return Json::parse(streams.out, nullptr, false);
}

std::string shown(const char* kind, const char* name) {
  Streams streams;
  run_command_line({"show", kind, name}, streams);
  return streams.out;
}

/// The file once for each of its lines that holds a number, with half or twice that number.
std::vector<std::string> edits(const std::string& text, double factor) {
  static const std::regex number(R"(^(\s*-?\s*[a-z_0-9]+: )([0-9.]+)( [A-Za-z/]+)?$)");
  std::vector<std::string> lines, all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (std::size_t at = 0; at < lines.size(); ++at) {
    std::smatch found;
    if (!std::regex_match(lines[at], found, number)) continue;
    std::string edited;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::ostringstream value;
      value << std::stod(found[2]) * factor;
      edited += (i == at ? found[1].str() + value.str() + found[3].str() : lines[i]) + "\n";
    }
    all.push_back(edited);
  }
  return all;
}

/// What a report says but for the names of its files.
Json figures(Json report) {
  for (const char* key : {"inputs", "notes", "unstated"}) report.erase(key);
  return report;
}

std::string origin_of(const Json& report, const char* field) {
  for (const Json& fact : report["unstated"])
    if (fact["field"] == field) return fact["origin"];
  return "";
}

}  // namespace

TEST_CASE("a number of a hardware file that is edited moves a figure, or a note says that it does not") {
  const TemporaryFolder folder;
  struct File {
    const char *kind, *name, *model;
  };
  int told = 0;
  for (const File& file : {File{"cluster", "dgx-h100", "8b"}, File{"gpu", "b200-sxm", "8b"},
                           File{"cluster", "selene", "nemotron-nano-9b-v2"}, File{"gpu", "h200-sxm", "gpt2"}}) {
    const std::string flag = std::string("--") + file.kind,
                      path = folder.write("hardware.yaml", shown(file.kind, file.name));
    const std::vector<std::string> job = {"estimate",  "--model",   file.model,  "--gpus",      "16",   "--layout",
                                          "tp2,zero1", "--offload", "optimizer", "--framework", "none", flag,
                                          path,        "--tokens",  "1T",        "--precision", "bf16"};
    const Json before = report_of(job);
    for (const Json& note : before["notes"]) CHECK(note["code"] != "hardware_not_priced");
    for (const double factor : {0.5, 2.0})
      for (const std::string& text : edits(shown(file.kind, file.name), factor)) {
        folder.write("hardware.yaml", text);
        const Json after = report_of(job);
        if (after.is_discarded() || figures(after) != figures(before)) continue;  // refused, or honoured
        bool says = false;
        for (const Json& note : after["notes"]) says = says || note["code"] == "hardware_not_priced";
        // A hybrid's scans are bound by few multiprocessors, not by many. Formats that the job does not multiply in,
        // and domains of which it fills one part, have no part in it.
        static const std::regex idle(R"(sm_count: 216|(fp32|fp16|fp8|fp4|size|scale_up_size|gpus_per_node): )");
        std::istringstream one(text), other(shown(file.kind, file.name));
        std::string line, own;
        while (std::getline(one, line) && std::getline(other, own) && line == own) continue;
        CAPTURE(line);
        CHECK((says || std::regex_search(line, idle)));
        told += says ? 1 : 0;
      }
  }
  CHECK(told >= 16);
}

TEST_CASE("no cluster that is shipped has a network beyond any adapter, and each whose network is ten times has") {
  const TemporaryFolder folder;
  int told = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Cluster, {})) {
    CAPTURE(entry.name);
    const auto unlikely = [&](const std::string& cluster) {
      const Json report = report_of({"estimate", "--model", "gpt2", "--gpus", "64", "--cluster", cluster, "--layout",
                                     "tp1,mb1", "--framework", "none"});
      if (report.is_discarded() || !report.contains("notes")) return false;
      for (const Json& note : report["notes"])
        if (note["code"] == "network_unlikely") return true;
      return false;
    };
    CHECK_FALSE(unlikely(entry.name));
    told +=
        unlikely(folder.write("c.yaml", std::regex_replace(shown("cluster", entry.name.c_str()),
                                                           std::regex(R"((nic|bandwidth): ([0-9.]+) )"), "$1: 9$2 ")))
            ? 1
            : 0;
  }
  CHECK(told >= 10);
}

TEST_CASE("a slip of a digit in a preset's own file is told, on every GPU, and its own numbers are not") {
  const TemporaryFolder folder;
  static const std::regex slips(R"(^(memory|memory_bandwidth|scale_up|host_link|nic): )");
  const auto unlikely = [&](const std::string& text) {
    const std::string path = folder.write("gpu.yaml", text);
    const Json report =
        report_of({"estimate", "--model", "gpt2", "--gpus", "8", "--gpu", path, "--layout", "tp1,mb1", "--framework",
                   "none", "--precision", text.find("bf16: ") != std::string::npos ? "bf16" : "fp16"});
    if (report.is_discarded() || !report.contains("notes")) return std::string("refused");
    for (const Json& note : report["notes"])
      if (note["code"] == "hardware_unlikely") return note["text"].get<std::string>();
    return std::string();
  };
  int told = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, {})) {
    CAPTURE(entry.name);
    const std::string text = shown("gpu", entry.name.c_str());
    CHECK(unlikely(text).find("preset") == std::string::npos);
    for (const std::string& edited : edits(text, 10)) {
      std::istringstream one(edited), other(text);
      std::string line, own;
      while (std::getline(one, line) && std::getline(other, own) && line == own) continue;
      if (!std::regex_search(line, slips)) continue;
      CAPTURE(line);
      CHECK_FALSE(unlikely(edited).empty());
      ++told;
    }
  }
  CHECK(told > 100);
}

TEST_CASE("a model's name that says how its weights are stored is answered with what is planned") {
  const auto told = [](const std::string& model, const char* task) {
    const Json report = report_of({"estimate", "--model", model, "--gpus", "8", "--layout", "zero1", "--task", task});
    for (const Json& note : report["notes"])
      if (note["code"] == "weights_format") return note["text"].get<std::string>();
    return std::string();
  };
  for (const char* model : {"Qwen/Qwen2.5-7B-Instruct", "llama3-8b", "gemma2-9b"}) {
    CAPTURE(model);
    CHECK(told(model, "pretrain").empty());
    for (const char* stored : {"AWQ", "GPTQ-Int4", "bnb-4bit", "FP8", "int4", "GGUF", "Q4_K_M", "quantized.w8a8"}) {
      const std::string name = std::string(model) + "-" + stored;
      CAPTURE(name);
      CHECK(told(name, "pretrain").find("`" + lowered(stored) + "`") != std::string::npos);
      CHECK_FALSE(told(name, "lora").empty());
      CHECK(told(name, "qlora").empty());
      CHECK(told(name + "-unquantized", "pretrain").empty());
    }
    for (const char* plain : {"-it-qat", "-unquantized", "-it-qat-q4_0-unquantized"})
      CHECK_MESSAGE(told(std::string(model) + plain, "pretrain").empty(), plain);
  }
}

TEST_CASE("a folder's name says nothing of weights whose format its config says") {
  const TemporaryFolder folder;
  const std::string shape = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256)";
  const std::string path = folder.write("config.json", shape + R"(, "torch_dtype": "bfloat16"})");
  const std::filesystem::path named = std::filesystem::path(path).parent_path() / "exp-fp8";
  std::filesystem::create_directory(named);
  const auto notes = [&](const std::string& more) {
    std::ofstream(named / "config.json") << shape << more;
    return report_of({"estimate", "--model", named.string(), "--gpus", "8", "--layout", "zero3"})["notes"].dump();
  };
  CHECK(notes(R"(, "torch_dtype": "bfloat16"})").find("weights_format") == std::string::npos);
  CHECK(notes("}").find("weights_format") != std::string::npos);
}

TEST_CASE("a switch that moves no figure is on the screen") {
  for (const auto& [flag, value] : {std::pair{"--cuda-graphs", "attn+moe_router"}, std::pair{"--imbalance", "1.25"}}) {
    Streams streams;
    run_command_line({"estimate", "--model", "qwen3-30b-a3b", "--gpus", "64", "--layout", "tp2,ep8", flag, value},
                     streams);
    CHECK(streams.out.find(value) != std::string::npos);
  }
}

TEST_CASE("what a model's file does not publish is plan's own default") {
  const TemporaryFolder folder;
  const auto ask = [](const std::string& model) {
    return report_of({"estimate", "--model", model, "--gpus", "8", "--layout", "zero3"});
  };
  CHECK(origin_of(ask("8b"), "seq") == "preset llama3-8b");
  CHECK(origin_of(ask("405b"), "global_batch") == "preset llama3-405b");
  CHECK(origin_of(ask("8b"), "global_batch") == "plan's default");
  const std::string text = shown("model", "8b");
  CHECK(origin_of(ask(folder.write("a.yaml", text + "global_batch: 512 sequences\n")), "global_batch") ==
        "preset llama3-8b");
  const std::string without = std::regex_replace(text, std::regex("(seq|global_batch): .*\n"), "");
  const Json open = ask(folder.write("b.yaml", without));
  CHECK(origin_of(open, "seq") == "plan's default");
  CHECK(origin_of(open, "global_batch") == "plan's default");
  const Json config = ask(folder.write("config.json", R"({"model_type": "llama", "hidden_size": 4096,
      "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
      "vocab_size": 128256, "max_position_embeddings": 8192})"));
  CHECK(origin_of(config, "seq") == "plan's default");
  CHECK(origin_of(config, "global_batch") == "plan's default");
}
