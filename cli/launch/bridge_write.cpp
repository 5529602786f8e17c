// Files of Megatron-Bridge: overrides of a recipe, and the script that starts it. Tested by
// tests/launch/round_trip_test.cpp and, against the tool itself, by tests/validators/dialects.sh.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/dialect.hpp"
#include "cli/launch/job_builder.hpp"
#include "cli/launch/launcher.hpp"
#include "cli/launch/megatron_put.hpp"
#include "planner/layout_text.hpp"
#include "planner/rules/megatron_models.hpp"

namespace plan {
std::string_view bridge_recipe(std::string_view model) {
  static constexpr std::pair<std::string_view, std::string_view> kStems[] = {
      {"llama3-405b", "llama31_405b"},
      {"llama3-70b", "llama3_70b"},
      {"llama3-8b", "llama3_8b"},
      {"llama3.2-1b", "llama32_1b"},
      {"llama3.2-3b", "llama32_3b"},
      {"llama2-7b", "llama2_7b"},
      {"deepseek-v3", "deepseek_v3"},
      {"deepseek-v2", "deepseek_v2"},
      {"deepseek-v2-lite", "deepseek_v2_lite"},
      {"qwen3-8b", "qwen3_8b"},
      {"qwen3-14b", "qwen3_14b"},
      {"qwen3-32b", "qwen3_32b"},
      {"qwen3-30b-a3b", "qwen3_30b_a3b"},
      {"qwen3-235b-a22b", "qwen3_235b_a22b"},
      {"kimi-k2", "kimi_k2"},
      {"gpt-oss-20b", "gpt_oss_20b"},
      {"gpt-oss-120b", "gpt_oss_120b"},
      {"gpt3-175b", "gpt3_175b"},
      {"gemma2-2b", "gemma2_2b"},
      {"gemma2-9b", "gemma2_9b"},
      {"gemma2-27b", "gemma2_27b"},
      {"gemma3-1b", "gemma3_1b"},
      {"olmoe-7b-a1b", "olmoe_7b"},
  };
  for (const auto& [name, stem] : kStems)
    if (model == name) return stem;
  return {};
}

Result<std::vector<LaunchFile>> write_bridge(const Plan& plan, const EmitOptions& options) {
  Result<std::vector<DialectSetting>> settings = dialect_settings(bridge_dialect(), plan, options);
  if (!settings) return fail(settings.error());
  const std::string_view recipe = bridge_recipe(plan.problem.model.name);
  if (const std::string_view lacking = megatron_flags_lack(plan.problem.model); !lacking.empty()) {
    // No key describes the model: it is what the provider of its recipe builds.
    if (recipe.empty() || !has_layers_of(plan.problem.model.name, plan.problem.model))
      return fail(
          {"not_expressible",
           fmt::format("megatron-bridge has no recipe for {}, and no key for {}", plan.problem.model.name, lacking),
           {},
           {"write `plan emit nemo-rl` or `plan emit llama-factory`"}});
    for (const std::string& flag : megatron::flags_of_model(plan))
      std::erase_if(*settings, [&](const DialectSetting& s) { return s.key == key_of(bridge_dialect(), flag); });
  }
  const bool adapters = plan.problem.training.adapters();
  if (adapters && recipe.empty())
    return fail(
        {"not_expressible",
         fmt::format("megatron-bridge has no recipe for {} that adapters could go into", plan.problem.model.name),
         {},
         {"write `plan emit ms-swift`, `nemo-rl`, `verl` or `llama-factory`"}});
  const std::string_view stem = recipe.empty() ? "vanilla_gpt" : recipe;  // which is told every dimension
  LaunchCommand launch;
  launch.title =
      fmt::format("{} on {} GPUs ({})", plan.problem.model.name, plan.problem.gpus, plan.problem.cluster.gpu.name);
  launch.comments = {axes_text(plan.best, plan.problem.model.moe()),
                     "Written by plan for Megatron-Bridge 0.6 or newer; the same keys stand in overrides.yaml.",
                     "Not the plan's: learning rate, iterations, data and tokenizer. Look at them before a long run."};
  if (adapters) launch.comments.emplace_back("Name the weights that are tuned: checkpoint.pretrained_checkpoint=PATH.");
  launch.environment = megatron_environment(plan);
  launch.setup = {"BRIDGE_PATH=\"${BRIDGE_PATH:?set BRIDGE_PATH to a Megatron-Bridge checkout}\""};
  launch.program = "\"$BRIDGE_PATH/scripts/training/run_recipe.py\"";
  launch.plain_program = "scripts/training/run_recipe.py";
  launch.groups = {{"RECIPE_ARGS",
                    {fmt::format("--model {} --mode {}{}", stem, adapters ? "lora" : "pretrain",
                                 options.data_path.empty() ? " --dataset mock" : "")}},
                   {"OVERRIDES", override_words(*settings)}};
  launch.stem = job_name(plan, options);
  Result<std::vector<LaunchFile>> files = write_launcher(launch, plan, options);
  if (!files) return files;
  files->insert(
      files->begin(),
      {"overrides.yaml",
       dialect_header(plan, {fmt::format("Overrides of Megatron-Bridge's recipe {}.", stem)}) + yaml_of(*settings),
       false});
  return files;
}

}  // namespace plan
