// Launch files of tools without a reader, recognised by their own keys: each is named, with what to do instead of
// guessing. A key at the start of a line is written `^key`. Tested by tests/launch/trains_nothing_test.cpp.
#include "cli/launch/other_tools.hpp"

#include <algorithm>

#include "cli/launch/formats.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "cli/launch/trainer/hugging_face.hpp"

namespace plan {
namespace {

constexpr std::string_view kState =
    "state its job with `--model`, `--gpus`, `--seq`, `--global-batch`, `--task` and `--layout`, or record the command "
    "that reads it with `plan capture` where that ends in a launcher's flags";

constexpr std::string_view kCommand =
    "give the command of the one of its jobs that is meant, as a script; or record that with `plan capture`";

constexpr OtherTool kTools[] = {
    {"a torchtune configuration that trains nothing", kState, {"_component_:", "torchtune."}, {}},
    {"a part of an OLMo-core configuration", kState, {"_CLASS_", "olmo_core"}, {}},
    {"a levanter configuration", kState, {"^trainer:", "^model:"}, {"per_device_parallelism:", "num_train_steps:"}},
    {"an InternEvo configuration", kState, {"gradient_checkpointing", "HIDDEN_SIZE"}, {}},
    {"a part of a verl configuration whose actor runs under FSDP",
     kState,
     {"actor_rollout_ref"},
     {"fsdp_config", "ulysses"}},
    {"an experiment of torchforge", kState, {"^trainer:", "^policy:", "^ref_model:"}, {}},
    {"a FlagScale experiment",
     "give the file under `train/` that it names, or state the job with flags",
     {"^experiment:", "^defaults:"},
     {"task:"}},
    {"a ColossalAI plugin configuration", kState, {}, {"HybridParallelPlugin", "GeminiPlugin", "LowLevelZeroPlugin"}},
    {"a prime-rl configuration", kState, {}, {"[orchestrator", "[trainer.model", "[inference]"}},
    {"a prime-rl training configuration", kState, {"[data]", "[ckpt]", "[optim]"}, {}},
    {"a NeMo Automodel recipe of another kind than a decoder's training", kState, {"_target_: nemo_automodel"}, {}},
    {"a NeuronX Distributed Training configuration", kState, {"^distributed_strategy:", "^exp_manager:"}, {}},
    {"a ROLL experiment", kState, {"^actor_train:", "strategy_args:"}, {}},
    {"an ArcticTraining configuration", kState, {"^type:", "^deepspeed:", "^micro_batch_size:"}, {}},
    {"a Galvatron run",
     "give the JSON file of strategies that its `galvatron_config_path` names, or state its job with flags",
     {"pp_deg:", "global_tp_deg:", "default_dp_type:"},
     {}},
    {"a SageMaker recipe", kState, {"^run:", "^training_config:", "llm_finetuning_aws"}, {}},
    {"an oumi configuration", kState, {"^model:", "^training:", "model_name:"}, {"trainer_type:", "output_dir:"}},
    {"a Fast-LLM configuration",
     kState,
     {"^training:", "^model:", "\n  base_model:"},
     {"train_iters:", "multi_stage:", "distributed:"}},
    {"an RL2 configuration", kState, {"^actor:", "^rollout:"}, {"prompts_per_rollout:", "max_length_per_device:"}},
    {"a dolomite-engine configuration", kState, {"^model_args:", "^training_parameters:"}, {}},
    {"a MindSpeed-RL experiment", kState, {"^megatron_training:", "^actor_config:"}, {}},
    {"an AReaL experiment", kState, {"allocation_mode:", "experiment_name:"}, {}},
    {"an AReaL experiment", kState, {"^experiment_name:", "^trial_name:"}, {"^actor:", "^gconfig:", "^cluster:"}},
    {"verl's own configuration of supervised training",
     "give the command that lies over it",
     {"- engine@engine:", "^data:"},
     {}},
    {"a Composer configuration without batches", kState, {"^max_duration:", "^train_loader:"}, {}},
    {"a workflow of GitHub Actions", kCommand, {"^jobs:", "runs-on:", "steps:"}, {}},
    {"a pipeline of GitLab CI", kCommand, {"\n  script:"}, {"\n  stage:", "^stages:", "^before_script:", "\n  tags:"}},
    {"a pipeline of CircleCI", kCommand, {"^version:", "^jobs:", "^workflows:"}, {}},
    {"a pipeline of Buildkite", kCommand, {"^steps:", "- label:"}, {"command:", "commands:"}},
    {"a pipeline of Azure", kCommand, {"^trigger:"}, {"- script:", "- task:", "- bash:"}},
};

/// Python programs that make their job themselves: the first of their names that is imported.
constexpr std::pair<std::string_view, OtherTool> kPrograms[] = {
    {"olmo_core", {"a training program of OLMo-core's in Python", kState, {}, {}}},
    {"nemo.collections", {"a NeMo recipe in Python", kState, {}, {}}},
    {"nemo_run", {"a NeMo-Run experiment in Python", kState, {}, {}}},
    {"megatron.bridge", {"a Megatron-Bridge recipe in Python", kState, {}, {}}},
    {"megatron",
     {"a training program of Megatron-LM's in Python: its job is in the flags of what starts it", kState, {}, {}}},
    {"deepspeed", {"a training program in Python with DeepSpeed: give the JSON file beside it", kState, {}, {}}},
    {"trl", {"a training program in Python with TRL", kState, {}, {}}},
    {"transformers", {"a training program in Python with transformers", kState, {}, {}}},
    {"lightning", {"a training program in Python with Lightning", kState, {}, {}}},
    {"composer", {"a training program in Python with Composer", kState, {}, {}}},
};

/// Whether Python's text imports the module.
bool imports(const std::string& text, std::string_view module) {
  for (const std::string_view start : {"import ", "from "})
    for (std::size_t at = text.find(start); at != std::string::npos; at = text.find(start, at + 1)) {
      if (at > 0 && text[at - 1] != '\n' && text[at - 1] != ' ') continue;
      const std::string_view rest = std::string_view(text).substr(at + start.size());
      if (rest.starts_with(module) && (rest.size() == module.size() ||
                                       std::string_view(". \n\r,").find(rest[module.size()]) != std::string_view::npos))
        return true;
    }
  return false;
}

bool has_line(const std::string& text, std::string_view word) {
  if (!word.starts_with('^')) return text.find(word) != std::string::npos;
  word.remove_prefix(1);
  if (text.starts_with(word)) return true;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (text[at - 1] == '\n') return true;
  return false;
}

constexpr OtherTool kPrimus{
    "a Primus experiment of another back end than Megatron-LM, Megatron-Bridge, torchtitan and MaxText",
    kState,
    {},
    {}};

constexpr OtherTool kTorchtitanProgram{"a training program of torchtitan's in Python",
                                       "give the configuration that it is started with, or state its job with flags",
                                       {},
                                       {}};

constexpr OtherTool kRecipe{"overrides of a Megatron-Bridge recipe, which decides the layout that they leave out",
                            kState,
                            {"^model:", "^train:", "train_iters:"},
                            {"^checkpoint:", "^scheduler:", "^dist:"}};

bool matches(const OtherTool& tool, const std::string& text) {
  const auto has = [&](std::string_view word) { return !word.empty() && has_line(text, word); };
  const bool all = std::all_of(std::begin(tool.all), std::end(tool.all),
                               [&](std::string_view word) { return word.empty() || has(word); });
  return all && (tool.any[0].empty() || std::any_of(std::begin(tool.any), std::end(tool.any), has));
}

}  // namespace

const OtherTool* other_tool(const LaunchSource& source) {
  if (source.path.ends_with(".py") && source.text.find("torchtitan") != std::string::npos &&
      (source.text.find(".backward()") != std::string::npos || source.text.find("\nasync def ") != std::string::npos))
    return &kTorchtitanProgram;
  if (source.path.ends_with(".py") && source.text.find("torchtitan") == std::string::npos)
    for (const auto& [module, tool] : kPrograms)
      if (imports(source.text, module)) return &tool;
  if (is_shell(source) || source.path.ends_with(".py") || is_verl_fsdp(source)) return nullptr;
  if (is_olmo_core(source) || is_foundry(source) || is_automodel(source)) return nullptr;
  if (has_line(source.text, "^work_group:") && has_line(source.text, "^modules:"))
    return has_line(source.text, "framework: megatron\n") || is_primus_torchtitan(source) ||
                   is_primus_maxtext(source) || is_primus_bridge(source)
               ? nullptr
               : &kPrimus;
  if (hugging_face::kind_of(source) == hugging_face::Kind::Torchtune) return nullptr;  // a training of torchtune's
  if (matches(kRecipe, source.text) && source.text.find("tensor_model_parallel_size") == std::string::npos)
    return &kRecipe;
  for (const OtherTool& tool : kTools)
    if (matches(tool, source.text)) return &tool;
  return nullptr;
}

}  // namespace plan
