#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/launch/trainer/hugging_face.hpp"

/// Every kind of launch file, once: `plan emit`, `--from` and the manual read this table. What recognises, reads and
/// writes a kind is in files of its own, built in by their being there.
namespace plan {

Recognises is_megatron_log, is_megatron_script, is_flagscale, is_megatron_yaml, is_primus_torchtitan, is_primus_maxtext,
    is_primus_bridge, is_gpt_neox, is_nemo, is_bridge_performance, is_bridge, is_nemo2, is_verl, is_verl_fsdp,
    is_verl_sft, is_nemo_rl, is_skyrl, is_swift, is_llama_factory, is_torchtitan, is_torchtitan_main, is_deepspeed,
    is_accelerate, is_galvatron, is_nanotron, is_litgpt, is_foundry, is_olmo, is_aws_fsdp, is_olmo_core, is_automodel,
    is_maxtext, is_easyr1;
Reads read_megatron_log, read_megatron_scripts, read_flagscale, read_megatron_yaml, read_primus_torchtitan,
    read_primus_maxtext, read_primus_bridge, read_gpt_neox, read_nemo, read_bridge_performance, read_bridge, read_nemo2,
    read_verl, read_verl_fsdp, read_verl_sft, read_nemo_rl, read_skyrl, read_swift, read_llama_factory, read_torchtitan,
    read_torchtitan_main, read_deepspeed, read_accelerate, read_galvatron, read_nanotron, read_litgpt, read_foundry,
    read_olmo, read_aws_fsdp, read_olmo_core, read_automodel, read_maxtext, read_easyr1;
Writes write_megatron, write_flagscale, write_bridge, write_verl, write_nemo_rl, write_swift, write_llama_factory,
    write_torchtitan, write_torchtitan_main, write_deepspeed, write_accelerate, write_axolotl, write_torchtune,
    write_galvatron, write_maxtext;

/// In the order in which they are recognised and listed.
inline constexpr LaunchFormat kFormats[] = {
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
    {"verl", "verl with Megatron actors: hydra overrides", Framework::Megatron, write_verl, is_verl, read_verl, nullptr,
     false, true},
    {"verl-fsdp", "verl with FSDP actors: hydra overrides", Framework::Accelerate, nullptr, is_verl_fsdp,
     read_verl_fsdp},
    {"verl-sft", "verl's supervised trainer: hydra overrides", Framework::Accelerate, nullptr, is_verl_sft,
     read_verl_sft},
    {"easyr1", "EasyR1: its YAML file, and words over it", Framework::Accelerate, nullptr, is_easyr1, read_easyr1},
    {"nemo-rl", "NeMo-RL: policy.megatron_cfg", Framework::Megatron, write_nemo_rl, is_nemo_rl, read_nemo_rl, nullptr,
     false, true},
    {"skyrl", "SkyRL with FSDP or Megatron policies: hydra overrides", Framework::Any, nullptr, is_skyrl, read_skyrl},
    {"ms-swift", "ms-swift: `megatron pt`", Framework::Megatron, write_swift, is_swift, read_swift, nullptr, false,
     true},
    {"llama-factory", "LLaMA-Factory with Megatron-Bridge", Framework::Megatron, write_llama_factory, is_llama_factory,
     read_llama_factory, nullptr, false, true},
    {"torchtitan", "torchtitan v0.2.2: its TOML file", Framework::Torchtitan, write_torchtitan, is_torchtitan,
     read_torchtitan},
    {"torchtitan-main", "torchtitan's main branch: a recipe in Python", Framework::Torchtitan, write_torchtitan_main,
     is_torchtitan_main, read_torchtitan_main},
    {"deepspeed", "DeepSpeed: its JSON file, with the Trainer's arguments", Framework::DeepSpeed, write_deepspeed,
     is_deepspeed, read_deepspeed, nullptr, false, true},
    {"accelerate", "accelerate: its YAML file for FSDP2, with the Trainer's arguments", Framework::Accelerate,
     write_accelerate, is_accelerate, read_accelerate, nullptr, false, true},
    {"axolotl", "axolotl: its YAML file, FSDP2 or plain replication", Framework::Accelerate, write_axolotl, nullptr,
     nullptr, hugging_face::settle_axolotl, false, true},
    {"torchtune", "torchtune: the YAML file of a recipe", Framework::Accelerate, write_torchtune, nullptr, nullptr,
     hugging_face::settle_torchtune, false, true},
    {"galvatron", "Galvatron: its JSON file, a strategy for each layer", Framework::Any, write_galvatron, is_galvatron,
     read_galvatron},
    {"nanotron", "nanotron: its YAML file", Framework::Any, nullptr, is_nanotron, read_nanotron},
    {"litgpt", "litgpt: its YAML file", Framework::Any, nullptr, is_litgpt, read_litgpt},
    {"llm-foundry", "llm-foundry: its YAML file for Composer", Framework::Any, nullptr, is_foundry, read_foundry},
    {"olmo", "OLMo before OLMo-core: its YAML file", Framework::Any, nullptr, is_olmo, read_olmo},
    {"aws-fsdp", "AWS's FSDP example: the flags of its train.py", Framework::Any, nullptr, is_aws_fsdp, read_aws_fsdp},
    {"olmo-core", "OLMo-core: the configuration that a run saves", Framework::Any, nullptr, is_olmo_core,
     read_olmo_core},
    {"nemo-automodel", "NeMo Automodel: the YAML file of a recipe", Framework::Any, nullptr, is_automodel,
     read_automodel},
    {"maxtext", "MaxText: its YAML file", Framework::Maxtext, write_maxtext, is_maxtext, read_maxtext},
};

/// All formats, in the order in which they are recognised and listed.
[[nodiscard]] std::span<const LaunchFormat> launch_formats();

/// Whether some format recognises the file and reads it.
[[nodiscard]] bool is_read(const LaunchSource& source);

}  // namespace plan
