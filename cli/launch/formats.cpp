// Every kind of launch file, once. `plan emit`, `--from` and the manual read this table.
#include <algorithm>

#include "cli/launch/dialect_files.hpp"
#include "cli/launch/flagscale.hpp"
#include "cli/launch/format.hpp"
#include "cli/launch/fsdp_dialects.hpp"
#include "cli/launch/galvatron.hpp"
#include "cli/launch/hugging_face.hpp"
#include "cli/launch/maxtext.hpp"
#include "cli/launch/megatron.hpp"
#include "cli/launch/megatron_cousins.hpp"
#include "cli/launch/megatron_log.hpp"
#include "cli/launch/native_trainers.hpp"
#include "cli/launch/primus.hpp"
#include "cli/launch/recipes.hpp"
#include "cli/launch/torchtitan.hpp"

namespace plan {
namespace {

constexpr LaunchFormat kFormats[] = {
    {"megatron-log", "Megatron-LM's log: the arguments that it prints", Framework::Megatron, nullptr, is_megatron_log,
     read_megatron_log},
    {"megatron-lm", "Megatron-LM: pretrain_gpt.py and its arguments", Framework::Megatron, write_megatron,
     is_megatron_script, read_megatron_scripts},
    {"flagscale", "FlagScale: its experiment in YAML, a process mesh for each kind of GPU", Framework::Megatron,
     write_flagscale, is_flagscale, read_flagscale, nullptr, true},
    {"megatron-yaml", "Megatron-LM's arguments as YAML: MODEL_ARGS, Primus's experiments", Framework::Megatron, nullptr,
     is_megatron_yaml, read_megatron_yaml},
    {"primus-torchtitan", "Primus's experiments on torchtitan", Framework::Torchtitan, nullptr, is_primus_torchtitan,
     read_primus_torchtitan},
    {"primus-maxtext", "Primus's experiments on MaxText", Framework::Maxtext, nullptr, is_primus_maxtext,
     read_primus_maxtext},
    {"primus-bridge", "Primus's experiments on Megatron-Bridge", Framework::Megatron, nullptr, is_primus_bridge,
     read_primus_bridge},
    {"gpt-neox", "GPT-NeoX: its YAML file", Framework::Megatron, nullptr, is_gpt_neox, read_gpt_neox},
    {"nemo", "NeMo's first generation: its YAML file", Framework::Megatron, nullptr, is_nemo, read_nemo},
    {"bridge-performance", "Megatron-Bridge's performance scripts: a recipe and flags over it", Framework::Megatron,
     nullptr, is_bridge_performance, read_bridge_performance},
    {"megatron-bridge", "NVIDIA's Megatron-Bridge: overrides of a recipe", Framework::Megatron, write_bridge, is_bridge,
     read_bridge},
    {"nemo2", "NeMo 2: `nemo llm` with a recipe and its overrides", Framework::Megatron, nullptr, is_nemo2, read_nemo2},
    {"verl", "verl with Megatron actors: hydra overrides", Framework::Megatron, write_verl, is_verl, read_verl},
    {"verl-fsdp", "verl with FSDP actors: hydra overrides", Framework::Accelerate, nullptr, is_verl_fsdp,
     read_verl_fsdp},
    {"verl-sft", "verl's supervised trainer: hydra overrides", Framework::Accelerate, nullptr, is_verl_sft,
     read_verl_sft},
    {"nemo-rl", "NeMo-RL: policy.megatron_cfg", Framework::Megatron, write_nemo_rl, is_nemo_rl, read_nemo_rl},
    {"ms-swift", "ms-swift: `megatron pt`", Framework::Megatron, write_swift, is_swift, read_swift},
    {"llama-factory", "LLaMA-Factory with Megatron-Bridge", Framework::Megatron, write_llama_factory, is_llama_factory,
     read_llama_factory},
    {"torchtitan", "torchtitan v0.2.2: its TOML file", Framework::Torchtitan, write_torchtitan, is_torchtitan,
     read_torchtitan},
    {"torchtitan-main", "torchtitan's main branch: a recipe in Python", Framework::Torchtitan, write_torchtitan_main,
     is_torchtitan_main, read_torchtitan_main},
    {"deepspeed", "DeepSpeed: its JSON file, with the Trainer's arguments", Framework::DeepSpeed, write_deepspeed,
     is_deepspeed, read_deepspeed},
    {"accelerate", "accelerate: its YAML file for FSDP2, with the Trainer's arguments", Framework::Accelerate,
     write_accelerate, is_accelerate, read_accelerate},
    {"axolotl", "axolotl: its YAML file, FSDP2 or plain replication", Framework::Accelerate, write_axolotl, nullptr,
     nullptr},
    {"torchtune", "torchtune: the YAML file of a recipe", Framework::Accelerate, write_torchtune, nullptr, nullptr,
     hugging_face::train_as_torchtune},
    {"galvatron", "Galvatron: its JSON file, a strategy for each layer", Framework::Any, write_galvatron, is_galvatron,
     read_galvatron},
    {"nanotron", "nanotron: its YAML file", Framework::Any, nullptr, is_nanotron, read_nanotron},
    {"litgpt", "litgpt: its YAML file", Framework::Any, nullptr, is_litgpt, read_litgpt},
    {"llm-foundry", "llm-foundry: its YAML file for Composer", Framework::Any, nullptr, is_foundry, read_foundry},
    {"olmo", "OLMo before OLMo-core: its YAML file", Framework::Any, nullptr, is_olmo, read_olmo},
    {"aws-fsdp", "AWS's FSDP example: the flags of its train.py", Framework::Any, nullptr, is_aws_fsdp, read_aws_fsdp},
    {"olmo-core", "OLMo-core: the configuration that a run saves", Framework::Any, nullptr, is_olmo_core,
     read_olmo_core},
    {"maxtext", "MaxText: its YAML file", Framework::Maxtext, write_maxtext, is_maxtext, read_maxtext},
};

}  // namespace

std::span<const LaunchFormat> launch_formats() { return kFormats; }

std::vector<std::string> emit_words() {
  std::vector<std::string> words;
  for (const LaunchFormat& format : launch_formats())
    if (format.write != nullptr) words.emplace_back(format.name);
  return words;
}

void settle(std::string_view name, Problem& problem) {
  for (const LaunchFormat& format : launch_formats()) {
    if (format.name != name) continue;
    if (format.trains != nullptr) format.trains(problem.training);
    problem.mesh_per_pool = format.meshes && !problem.pools.empty();
  }
}

std::optional<Framework> framework_of_format(std::string_view name) {
  for (const LaunchFormat& format : launch_formats())
    if (format.name == name && format.write != nullptr) return format.framework;
  return std::nullopt;
}

}  // namespace plan
