// Files of Megatron-Bridge: overrides of a recipe, and the script that starts it. Tested by
// tests/launch/round_trip_test.cpp and, against the tool itself, by tests/validators/dialects.sh.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/job/job_builder.hpp"
#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/megatron/put.hpp"
#include "cli/launch/start/launcher.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/rules/megatron_models.hpp"

namespace plan {

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
