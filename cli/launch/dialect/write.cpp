// A plan under a dialect's keys. Tested by tests/launch/round_trip_test.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/launch/dialect/bridge_precision.hpp"
#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/job/layer_pattern.hpp"
#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/start/launcher.hpp"
#include "cli/terminal/bf16_layers.hpp"
#include "formulas/names.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

const MegatronSetting* find(const std::vector<MegatronGroup>& groups, std::string_view flag) {
  for (const MegatronGroup& group : groups)
    for (const MegatronSetting& setting : group.settings)
      if (setting.flag == flag) return &setting;
  return nullptr;
}

/// A YAML scalar: quoted where YAML would read something else.
std::string scalar(const std::string& text) {
  const bool plain = !text.empty() && text[0] != '-' && std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f ||
           std::string_view(":#{}[]&*!|>'\"%@`,").find(c) != std::string_view::npos;
  });
  constexpr std::string_view kOther[] = {"null", "~", "true", "false", "yes", "no", "on", "off"};
  const bool other = std::find(std::begin(kOther), std::end(kOther), lowered(text)) != std::end(kOther);
  return plain && !other ? text : string_quoted(text);
}

std::string_view torch_dtype(std::string_view word) {
  if (word == "bf16") return "torch.bfloat16";
  if (word == "fp16") return "torch.float16";
  return word == "fp8" ? "torch.uint8" : "torch.float32";
}

/// A pattern as the list that it is; a period stays a number.
std::string layer_list(const std::string& pattern) {
  const std::optional<std::vector<bool>> layers = listed_layers(pattern);
  if (!layers) return pattern;
  std::vector<int> items(layers->begin(), layers->end());
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string value_of(const DialectKey& row, const MegatronSetting& setting) {
  switch (row.kind) {
    case KeyKind::Switch:
    case KeyKind::On: return "true";
    case KeyKind::Off: return "false";
    case KeyKind::List: return fmt::format("[{}]", fmt::join(setting.values, ", "));
    case KeyKind::Layers: return layer_list(setting.values.front());
    case KeyKind::Dtype: return std::string(torch_dtype(setting.values.front()));
    case KeyKind::Value: break;
  }
  return scalar(fmt::format("{}", fmt::join(setting.values, " ")));
}

/// Formats that no recipe of Megatron-Bridge has: current scaling leaves the first and last layer in bf16, and no other
/// leaves any.
std::optional<Error> no_recipe(const Dialect& dialect, const Training& training) {
  if (dialect.precision != "mixed_precision" || bridge_precision(training.precision, training.bf16_layers) != nullptr)
    return std::nullopt;
  Error error{"not_expressible",
              fmt::format("no mixed-precision recipe of {} trains in {} with {} layers in bf16", dialect.format,
                          name(training.precision), bf16_layers_text(training.bf16_layers)),
              {},
              {}};
  for (const BridgePrecision& row : bridge_precisions())
    if (row.precision == training.precision)
      error.help.push_back(fmt::format("plan with `--bf16-layers {}`", bf16_layers_text(row.bf16_layers)));
  error.help.erase(std::unique(error.help.begin(), error.help.end()), error.help.end());
  return error;
}

/// The word of `plan` that turns on what a flag of Megatron-LM does, by how the flag begins. The first that fits
/// counts.
constexpr struct {
  std::string_view begins, word;
} kTurnedOnBy[] = {
    {"optimizer-cpu-offload", "--offload"},
    {"optimizer-offload", "--offload"},
    {"overlap-cpu-optimizer", "--offload"},
    {"cpu-offloading", "--offload"},
    {"fine-grained-activation-offloading", "--offload"},
    {"offload-modules", "--offload"},
    {"overlap-", "--overlap"},
    {"no-overlap-p2p", "--overlap"},
    {"tp-comm-overlap", "--overlap"},
    {"cuda-graph", "--cuda-graphs"},
    {"te-rng-tracker", "--cuda-graphs"},
    {"no-check-for-nan", "--cuda-graphs"},
    {"moe-token-dispatcher", "--dispatcher"},
    {"moe-flex-dispatcher", "--dispatcher"},
    {"first-last-layers-bf16", "--bf16-layers"},
    {"num-layers-at-", "--bf16-layers"},
    {"fp8-", "--precision"},
    {"fp4-", "--precision"},
    {"bf16", "--precision"},
    {"fp16", "--precision"},
    {"optimizer", "--optimizer"},
    {"use-precision-aware-optimizer", "--state-formats"},
    {"main-", "--state-formats"},
    {"exp-avg", "--state-formats"},
    {"grad-reduce-in-bf16", "--state-formats"},
    {"global-batch-size", "--global-batch"},
    {"seq-length", "--seq"},
    {"micro-batch-size", "--layout"},
    {"expert-", "--layout"},
    {"recompute-", "--layout"},
};

/// Nothing where no word does: the model or what the stack always says.
std::string_view turned_on_by(const MegatronGroup& group, std::string_view flag) {
  for (const auto& [begins, word] : kTurnedOnBy)
    if (flag.starts_with(begins)) return word;
  return group.name == "PARALLEL_ARGS" ? "--layout" : "";
}

Errors inexpressible(const Dialect& dialect, const std::vector<MegatronGroup>& groups) {
  Errors errors;
  for (const MegatronGroup& group : groups)
    for (const MegatronSetting& setting : group.settings) {
      const bool known = std::any_of(dialect.keys.begin(), dialect.keys.end(),
                                     [&](const DialectKey& row) { return row.flag == setting.flag; });
      if (known) continue;
      const std::string_view word = turned_on_by(group, setting.flag);
      errors.push_back(
          {"not_expressible",
           fmt::format("{} has no key for Megatron-LM's `--{}{}{}`, which the plan needs", dialect.format, setting.flag,
                       setting.values.empty() ? "" : " ", fmt::join(setting.values, " ")),
           {},
           {word.empty() ? "write `plan emit megatron-lm`"
                         : fmt::format("plan it otherwise with `{}`, or write `plan emit megatron-lm`", word)}});
    }
  return errors;
}

struct AdapterKey {
  std::string_view format;
  std::string_view key;
  std::string_view value;  ///< R: the rank, A: what it is scaled by
};
/// verl 0.7 model config, NeMo-RL 0.7 policy config, ms-swift 4 and LLaMA-Factory 0.9.5 arguments, Megatron-Bridge 0.6
/// peft/lora.py. All scale by twice the rank here, as the papers' examples do; it moves no byte.
constexpr AdapterKey kAdapters[] = {
    {"verl", "actor_rollout_ref.model.lora.rank", "R"},
    {"verl", "actor_rollout_ref.model.lora.alpha", "A"},
    {"nemo-rl", "policy.megatron_cfg.peft.enabled", "true"},
    {"nemo-rl", "policy.megatron_cfg.peft.dim", "R"},
    {"nemo-rl", "policy.megatron_cfg.peft.alpha", "A"},
    {"ms-swift", "tuner_type", "lora"},
    {"ms-swift", "lora_rank", "R"},
    {"ms-swift", "lora_alpha", "A"},
    {"ms-swift", "target_modules", "all-linear"},
    {"llama-factory", "lora_rank", "R"},
    {"llama-factory", "lora_alpha", "A"},
    {"llama-factory", "lora_target", "all"},
    {"megatron-bridge", "peft.dim", "R"},
    {"megatron-bridge", "peft.alpha", "A"},
};

/// Adapters under the dialect's keys, on every linear layer; or why it has none such.
Errors add_adapters(const Dialect& dialect, const Training& training, std::vector<DialectSetting>& out) {
  if (training.task == Task::Qlora)
    return {{"not_expressible",
             fmt::format("{} trains adapters on weights of 16 bits here", dialect.format),
             {},
             {"plan with `--task lora`, or write `plan emit accelerate` or `deepspeed`"}}};
  if (!training.lora.attention || !training.lora.ffn)
    return {{"not_expressible",
             fmt::format("{} is written with adapters on every linear layer", dialect.format),
             {},
             {"leave `--lora-target` out"}}};
  for (const AdapterKey& row : kAdapters)
    if (row.format == dialect.format)
      out.push_back({std::string(row.key), row.value == "R"   ? fmt::format("{}", training.lora.rank)
                                           : row.value == "A" ? fmt::format("{}", 2 * training.lora.rank)
                                                              : std::string(row.value)});
  return {};
}

/// Keys in the order of first appearance, one level of nesting at a time.
void nest(const std::vector<DialectSetting>& settings, std::size_t prefix, int indent, std::string& out) {
  std::vector<std::string> seen;
  for (const DialectSetting& setting : settings) {
    const std::string rest = setting.key.substr(prefix);
    const std::size_t dot = rest.find('.');
    if (dot == std::string::npos) {
      out += fmt::format("{:{}}{}: {}\n", "", indent, rest, setting.value);
      continue;
    }
    const std::string section = rest.substr(0, dot + 1);
    if (std::find(seen.begin(), seen.end(), section) != seen.end()) continue;
    seen.push_back(section);
    std::vector<DialectSetting> inner;
    const std::string whole = setting.key.substr(0, prefix) + section;
    for (const DialectSetting& other : settings)
      if (other.key.starts_with(whole)) inner.push_back(other);
    out += fmt::format("{:{}}{}:\n", "", indent, rest.substr(0, dot));
    nest(inner, whole.size(), indent + 2, out);
  }
}

}  // namespace

std::string_view key_of(const Dialect& dialect, std::string_view flag) {
  for (const DialectKey& row : dialect.keys)
    if (row.flag == flag) return row.key;
  return {};
}

Result<std::vector<DialectSetting>> dialect_settings(const Dialect& dialect, const Plan& plan,
                                                     const EmitOptions& options) {
  Plan whole = plan;  // Megatron-LM's own flags know no adapters: each dialect has its keys for them
  if (plan.problem.training.adapters()) whole.problem.training.task = Task::FullFinetune;
  const Result<std::vector<MegatronGroup>> groups = megatron_settings(whole, options, dialect.bridge);
  if (!groups) return fail(groups.error());
  Errors errors = inexpressible(dialect, *groups);
  std::vector<DialectSetting> adapters;
  if (plan.problem.training.adapters())
    for (Error& error : add_adapters(dialect, plan.problem.training, adapters)) errors.push_back(std::move(error));
  const Precision precision = plan.problem.training.precision;
  const bool fp16 = precision == Precision::Fp16;
  if (precision == Precision::Fp32 || (fp16 && dialect.precision == "bf16"))
    errors.push_back({"not_expressible",
                      fmt::format("{} trains no {} here", dialect.format, name(precision)),
                      {},
                      {"plan with `--precision bf16`"}});
  if (std::optional<Error> error = no_recipe(dialect, plan.problem.training); error && errors.empty())
    errors.push_back(std::move(*error));
  if (!errors.empty()) return fail(std::move(errors));
  std::vector<DialectSetting> out;
  const bool moe = plan.problem.model.moe();
  if (!dialect.model.empty()) out.push_back({std::string(dialect.model), scalar(hub_name(plan))});
  for (const DialectKey& row : dialect.keys) {
    const MegatronSetting* setting = row.key.empty() ? nullptr : find(*groups, row.flag);
    const std::string_view otherwise = row.kind == KeyKind::On ? "false" : row.otherwise;
    if (setting != nullptr)
      out.push_back({row.key, value_of(row, *setting)});
    else if (!row.key.empty() && !otherwise.empty() && (moe || row.key.find(".moe_") == std::string::npos))
      out.push_back({row.key, std::string(otherwise)});
  }
  out.push_back({std::string(dialect.precision),
                 dialect.precision == "bf16" ? "true"
                 : dialect.precision == "mixed_precision"
                     ? std::string(bridge_precision(precision, plan.problem.training.bf16_layers)->name)
                 : fp16 ? "float16"
                        : "bfloat16"});
  const int each = std::clamp(plan.problem.cluster.gpus_per_node, 1, std::max(1, plan.problem.gpus));
  if (!dialect.nodes.empty())
    out.push_back({std::string(dialect.nodes), fmt::format("{}", std::max(1, plan.problem.gpus / each))});
  if (!dialect.gpus.empty()) out.push_back({std::string(dialect.gpus), fmt::format("{}", each)});
  out.insert(out.end(), adapters.begin(), adapters.end());
  return out;
}

std::string yaml_of(const std::vector<DialectSetting>& settings) {
  std::string out;
  nest(settings, 0, 0, out);
  return out;
}

}  // namespace plan
