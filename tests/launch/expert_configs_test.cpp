// Configurations that NVIDIA and others published for Megatron and its dialects (tests/published/expert_configs.csv):
// each that states its degrees is legal under the framework it is for.
#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>

#include "cli/launch/megatron.hpp"
#include "planner/frameworks.hpp"
#include "planner/rules.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else if (c != '\r')
      out.back().push_back(c);
  }
  return out;
}

std::vector<Row> read_rows() {
  std::ifstream in(PLAN_SOURCE_DIR "/tests/published/expert_configs.csv");
  REQUIRE(in);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = fields(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> values = fields(line);
    Row row;
    for (std::size_t i = 0; i < names.size() && i < values.size(); ++i) row[names[i]] = values[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

int number(const Row& row, const char* key, int otherwise = 0) {
  const std::string& text = row.at(key);
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// `LLAMA3.1_405B`, `Qwen3_235B_a22B (tokendrop)` as presets are called.
std::string preset_name(std::string name) {
  static const std::map<std::string, std::string> kNames = {
      {"llama3.1-405b", "llama3-405b"},
      {"llama31-405b", "llama3-405b"},
      {"llama3.1-70b", "llama3-70b"},
      {"llama31-70b", "llama3-70b"},
      {"llama3.1-8b", "llama3-8b"},
      {"llama31-8b", "llama3-8b"},
      {"llama-3.1-405b", "llama3-405b"},
      {"llama-3.1-70b", "llama3-70b"},
      {"llama-3.1-8b", "llama3-8b"},
      {"llama32-1b", "llama3.2-1b"},
      {"llama32-3b", "llama3.2-3b"},
      {"llama4-e128", "llama4-maverick"},
      {"llama4-e16", "llama4-scout"},
      {"deepseekv3", "deepseek-v3"},
      {"deepseek-v3-671b", "deepseek-v3"},
      {"nemotron-3-super", "nemotron3-super-120b-a12b"},
      {"nemotron-3-nano", "nemotron3-nano-30b-a3b"},
      {"nemotron-3-ultra", "nemotron3-ultra-550b-a55b"},
      {"nemotron-3-5-lightning", "nemotron3.5-lightning-30b-a3b"},
      {"nemotronh-56b", "nemotron-h-56b"},
      {"nemotronh-8b", "nemotron-h-8b"},
      {"moonlight-16b", "moonlight-16b-a3b"},
      {"qwen25-72b", "qwen2.5-72b"},
      {"qwen25-32b", "qwen2.5-32b"},
      {"qwen25-14b", "qwen2.5-14b"},
      {"qwen25-7b", "qwen2.5-7b"},
      {"qwen25-1p5b", "qwen2.5-1.5b"},
      {"qwen25-500m", "qwen2.5-0.5b"},
      {"qwen3-1p7b", "qwen3-1.7b"},
      {"qwen3-600m", "qwen3-0.6b"},
      {"glm45-355b", "glm-4.5"},
      {"glm45-air-106b", "glm-4.5-air"},
      {"glm52", "glm-5.2"},
      {"llama-3-8b", "llama3-8b"},
  };
  name = name.substr(0, name.find(" ("));
  while (name.ends_with(' ')) name.pop_back();
  for (char& c : name) c = c == '_' || c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  while (name.starts_with('-')) name.erase(name.begin());
  const auto found = kNames.find(name);
  return found == kNames.end() ? name : found->second;
}

bool of_megatron_family(const Row& row) {
  const std::string& framework = row.at("framework");
  return framework.find("megatron") != std::string::npos || framework == "nemo2" || framework == "verl" ||
         framework == "nemo-rl";
}

bool states_all(const Row& row) {
  constexpr const char* kDegrees[] = {"gpus", "tp", "cp", "pp", "mbs", "gbs", "seq"};
  return std::all_of(std::begin(kDegrees), std::end(kDegrees), [&](const char* key) { return number(row, key) > 0; });
}

Recompute recompute_of(const std::string& text) {
  Recompute out;
  if (text.starts_with("full")) out.kind = RecomputeKind::Full;
  if (text.starts_with("selective")) out.kind = RecomputeKind::Selective, out.modules = kRecomputeCoreAttention;
  return out;
}

Precision precision_of(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text.find("nvfp4") != std::string::npos) return Precision::Nvfp4;
  if (text.find("mx") != std::string::npos) return Precision::Mxfp8;
  return text.find("fp8") != std::string::npos ? Precision::Fp8Tensorwise : Precision::Bf16;
}

Layout layout_of(const Row& row, const Problem& problem) {
  Layout layout;
  layout.tp = number(row, "tp"), layout.cp = number(row, "cp"), layout.pp = number(row, "pp");
  layout.vp = std::max(1, number(row, "vpp", 1));
  layout.ep = problem.model.moe() ? std::max(1, number(row, "ep", 1)) : 1;
  layout.etp = problem.model.moe() ? std::max(1, number(row, "etp", 1)) : 1;  // not stated: recipes take 1
  layout.dp = problem.gpus / (layout.tp * layout.cp * layout.pp);
  layout.micro_batch = number(row, "mbs");
  layout.sequence_parallel = layout.tp > 1 && row.at("sp") != "False";
  if (layout.pp == 1) layout.vp = 1;
  layout.schedule = layout.vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
  layout.zero = row.at("zero_or_fsdp").find("fsdp") != std::string::npos ? 3 : 1;
  layout.recompute = recompute_of(row.at("recompute"));
  if (layout.cp > 1 && std::any_of(problem.model.kinds.begin(), problem.model.kinds.end(),
                                   [](const Layer& k) { return k.attention.sinks || k.attention.window > 0; }))
    layout.cp_kind = CpKind::Ulysses;  // what those models can run; rows do not say
  return layout;
}

}  // namespace

/// Recipes that Megatron itself refuses as they stand: 128 replicas do not divide their batch of 192, and 13 stages not
/// the 32 micro-batches that an interleaved schedule goes through (launch.md 3.1.2, rules 4 and 24).
std::string_view known_refusal(const Row& row) {
  const std::string& source = row.at("source");
  for (const char* recipe :
       {"#nemotronh_56b_pretrain_256gpu_b200_bf16_config", "#nemotronh_56b_pretrain_256gpu_gb300_bf16_config"})
    if (source.ends_with(recipe)) return "batch_divides";
  return source.ends_with("#glm52_pretrain_416gpu_h100_bf16_config") ? "schedule_limits" : "";
}

TEST_CASE("published configurations of Megatron's family are legal") {
  const StoreOptions store;
  const Cluster cluster = load_cluster("dgx-h100", store)->value;
  std::set<std::string> without_preset;
  int checked = 0, skipped = 0;
  for (const Row& row : read_rows()) {
    if (!of_megatron_family(row) || row.at("fits_world") == "NO" || !states_all(row)) continue;
    const Result<Found<Model>> model = load_model(preset_name(row.at("model")), store);
    if (!model) {
      without_preset.insert(row.at("model"));
      ++skipped;
      continue;
    }
    Problem problem;
    problem.model = model->value;
    problem.cluster = cluster;
    problem.framework = Framework::Megatron;
    problem.gpus = number(row, "gpus");
    problem.training.seq = number(row, "seq");
    problem.training.global_batch = number(row, "gbs");
    problem.training.precision = precision_of(row.at("precision"));
    problem.training.stack = framework_row(Framework::Megatron).stack;
    problem.fixed.tp = number(row, "tp");
    problem.fixed.cp = number(row, "cp");
    const Layout layout = layout_of(row, problem);
    const int broken = broken_rule(problem, layout);
    CAPTURE(row.at("model"));
    CAPTURE(row.at("source"));
    CAPTURE(row.at("gpus"));
    CAPTURE(layout.tp);
    CAPTURE(layout.cp);
    CAPTURE(layout.pp);
    CAPTURE(layout.vp);
    CAPTURE(layout.ep);
    CAPTURE(problem.training.global_batch);
    CAPTURE(layout.micro_batch);
    CAPTURE(row.at("precision"));
    const std::string_view code = broken < 0 ? "" : rules()[static_cast<std::size_t>(broken)].code;
    CHECK(code == known_refusal(row));
    const std::string& stages = row.at("pp_layout");
    if (stages.starts_with('E') && row.at("model").find("w/o MTP") == std::string::npos) {
      const int mtp = static_cast<int>(std::count(stages.begin(), stages.end(), 'm'));
      CHECK(read_pipeline_layout(stages, problem.model.depth(), mtp));
    }
    ++checked;
  }
  CHECK(checked > 700);
  std::string names;
  for (const std::string& name : without_preset) names += (names.empty() ? "" : ", ") + name;
  MESSAGE(checked << " rows are legal; " << skipped << " are of models without a preset: " << names);
}

}  // namespace plan
