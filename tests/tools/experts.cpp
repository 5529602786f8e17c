// Tested by tests/launch/expert_configs_test.cpp.
#include "experts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <tuple>

#include "formulas/names.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/planner.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"

namespace plan::experts {
namespace {

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

/// `selective:moe_act+mlp`, `full:block:5`, `full layers=10`; what is not modelled (mhc, gdn_norm_out) stays out.
Recompute recompute_of(const std::string& text) {
  Recompute out;
  if (text.starts_with("full")) {
    out.kind = RecomputeKind::Full;
    const std::size_t digits = text.find_last_not_of("0123456789") + 1;
    if (text.find("uniform") == std::string::npos) out.layers = std::atoi(text.c_str() + digits);
  } else if (text.starts_with("selective")) {
    out.kind = RecomputeKind::Selective;
    for (std::size_t at = text.find(':'); at < text.size();) {
      const std::size_t end = std::min(text.find('+', at + 1), text.size());
      if (const auto module = parse(kRecomputeModuleNames, std::string_view(text).substr(at + 1, end - at - 1)))
        out.modules = static_cast<std::uint16_t>(out.modules | *module);
      at = end;
    }
    if (text == "selective") out.modules = kRecomputeCoreAttention;
    if (out.modules == 0) out.kind = RecomputeKind::None;
  }
  return out;
}

Precision precision_of(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text.find("nvfp4") != std::string::npos) return Precision::Nvfp4;
  if (text.find("mx") != std::string::npos) return Precision::Mxfp8;
  return text.find("fp8") != std::string::npos ? Precision::Fp8Tensorwise : Precision::Bf16;
}

const char* fits_word(Fits fits) { return fits == Fits::Yes ? "" : fits == Fits::AtRisk ? " (at risk)" : " (no)"; }

std::string gib(const Estimate& e) {
  return fmt::format("{:.0f}{}", static_cast<double>(e.peak.value) / (1024.0 * 1024 * 1024), fits_word(e.fits));
}

/// The parts of the step time that changed most, as seconds of the best plan minus those of the expert.
std::string reason(const Comparison& comparison) {
  std::string out;
  for (const Effect& effect : comparison.effects) {
    if (effect.name != "step_time") continue;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, effect.parts.size()); ++i)
      out += fmt::format("{}{} {:+.1f} %", i > 0 ? ", " : "", effect.parts[i].name,
                         100 * effect.parts[i].delta() / std::max(1e-9, effect.a));
  }
  if (comparison.a.best.fits == Fits::No) out += "; the expert's needs more memory than there is";
  return out;
}

std::string changes(const Comparison& comparison) {
  std::string out;
  for (const ChangedChoice& change : comparison.layout)
    if (change.key != "stage_layers" && change.key != "dp")
      out += fmt::format("{}{} {} → {}", out.empty() ? "" : ", ", change.key, change.a, change.b);
  return out.empty() ? "nothing" : out;
}

}  // namespace

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream in(path);
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

int number(const Row& row, const char* key, int otherwise) {
  const std::string& text = row.at(key);
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool complete_megatron_row(const Row& row) {
  const std::string& framework = row.at("framework");
  const bool family = framework.find("megatron") != std::string::npos || framework == "nemo2" || framework == "verl" ||
                      framework == "nemo-rl";
  constexpr const char* kDegrees[] = {"gpus", "tp", "cp", "pp", "mbs", "gbs", "seq"};
  return family && row.at("fits_world") != "NO" &&
         std::all_of(std::begin(kDegrees), std::end(kDegrees), [&](const char* key) { return number(row, key) > 0; });
}

std::string gpu_preset(const Row& row) {
  const std::string& gpu = row.at("gpu");
  if (gpu == "H100-96GB-HBM2e") return "h100-sxm-96gb-500w";
  for (const auto& [word, preset] :
       {std::pair{"GB300", "gb300"}, std::pair{"GB200", "gb200"}, std::pair{"B300", "b300-sxm"},
        std::pair{"B200", "b200-sxm"}, std::pair{"H100", "h100-sxm"}, std::pair{"A100", "a100-sxm-80gb"}})
    if (gpu.starts_with(word)) return preset;
  return {};
}

Result<Problem> problem_of(const Row& row, const Cluster& cluster) {
  Result<Found<Model>> model = load_model(preset_name(row.at("model")), StoreOptions{});
  if (!model) return fail(model.error());
  Problem problem;
  problem.model = std::move(model->value);
  problem.cluster = cluster;
  problem.framework = Framework::Megatron;
  problem.gpus = number(row, "gpus");
  problem.training.seq = number(row, "seq");
  problem.training.global_batch = number(row, "gbs");
  problem.training.precision = precision_of(row.at("precision"));
  problem.training.stack = framework_row(Framework::Megatron).stack;
  const std::string& kind = row.at("kind");
  const bool adapters = kind.find("lora") != std::string::npos || kind.find("LoRA") != std::string::npos;
  if (adapters) problem.training.task = Task::Lora;
  return problem;
}

std::optional<Plan> lightest_that_fits(Problem problem, const Row& row) {
  const std::uint16_t modules = kRecomputeNorm | (problem.model.moe() ? kRecomputeMoe : kRecomputeMlp);
  std::vector<Recompute> open = {recompute_of(row.at("recompute"))};
  if (row.at("recompute").empty())
    open = {{}, {.kind = RecomputeKind::Selective, .modules = modules}, {.kind = RecomputeKind::Full}};
  std::optional<Plan> last;
  struct States {
    int grad, moments;
  };
  for (const States states : {States{4, 4}, States{2, 4}, States{2, 2}})
    for (const Recompute& recompute : open) {
      problem.training.grad_bytes = states.grad;
      problem.training.moment1_bytes = problem.training.moment2_bytes = states.moments;
      problem.training.precision_aware = states.moments < 4;
      Layout layout = layout_of(row, problem);
      layout.recompute = recompute;
      Result<Plan> plan = plan_layout(problem, layout);
      if (plan) last = std::move(*plan);
      if (last && last->best.fits != Fits::No) return last;
    }
  return last;
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
  if (layout.vp > 1) layout.group = layout.pp;  // Megatron's default: no recipe states another
  layout.zero = row.at("zero_or_fsdp").find("fsdp") != std::string::npos ? 3 : 1;
  layout.recompute = recompute_of(row.at("recompute"));
  if (layout.cp > 1 && std::any_of(problem.model.kinds.begin(), problem.model.kinds.end(),
                                   [](const Layer& k) { return k.attention.sinks || k.attention.window > 0; }))
    layout.cp_kind = CpKind::Ulysses;  // what those models can run; rows do not say
  return layout;
}

double Contest::speedup() const { return comparison.a.best.step_time.value / comparison.b.best.step_time.value; }

std::vector<Row> groups(const std::vector<Row>& rows) {
  std::vector<Row> out;
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (const bool measured : {true, false})
    for (const Row& row : rows) {
      if (!complete_megatron_row(row) || gpu_preset(row).empty()) continue;
      if (row.at("kind").starts_with("measured") != measured) continue;
      if (seen.emplace(preset_name(row.at("model")), gpu_preset(row), row.at("gpus")).second) out.push_back(row);
    }
  return out;
}

Result<Contest> contest(const Row& row) {
  const Result<Cluster> cluster = load_cluster_of_gpu(gpu_preset(row), StoreOptions{}).map([](Found<Cluster> found) {
    return std::move(found.value);
  });
  if (!cluster) return fail(cluster.error());
  Result<Problem> problem = problem_of(row, *cluster);
  if (!problem) return fail(problem.error());
  const std::optional<Plan> expert = lightest_that_fits(*problem, row);
  if (!expert) return fail({"no_layout", "the expert's layout is refused", {}, {}});
  problem->training = expert->problem.training;
  problem->top = 1;
  const Result<Plan> best = search(*problem);
  if (!best) return fail(best.error());
  return Contest{*problem, row.at("source"), compare({"expert", {}, expert->best}, {"plan", {}, best->best})};
}

std::string line(const Contest& contest) {
  const Problem& p = contest.problem;
  const Estimate &expert = contest.comparison.a.best, &best = contest.comparison.b.best;
  return fmt::format("| {} | {} x {} | {}, {}, {} | {:.2f} | {:.2f} | {:.2f} | {} | {} | {} | {} |\n", p.model.name,
                     p.gpus, p.cluster.gpu.name, name(p.training.precision), p.training.seq, p.training.global_batch,
                     expert.step_time.value, best.step_time.value, contest.speedup(), gib(expert), gib(best),
                     changes(contest.comparison), reason(contest.comparison));
}

std::string table(std::vector<Contest> contests, std::size_t most) {
  std::stable_sort(contests.begin(), contests.end(), [](const Contest& a, const Contest& b) {
    return std::fabs(std::log(a.speedup())) > std::fabs(std::log(b.speedup()));
  });
  if (contests.size() > most) contests.erase(contests.begin() + static_cast<std::ptrdiff_t>(most), contests.end());
  std::string out =
      "| model | GPUs | precision, sequence, batch | step, s: expert | plan | ratio | GiB: expert | plan | what "
      "differs, "
      "expert → plan | why: share of the expert's step |\n|---|---|---|--:|--:|--:|--:|--:|---|---|\n";
  for (const Contest& one : contests) out += line(one);
  return out;
}

}  // namespace plan::experts
