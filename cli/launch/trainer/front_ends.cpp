// Front ends of the Trainer with configurations of their own: axolotl's, torchtune's, OpenRLHF's and those of
// LLaMA-Factory's second generation, brought to the Trainer's keys. Tested by tests/launch/reading_test.cpp and
// native_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/trainer/sources.hpp"
#include "cli/settings/settings.hpp"
#include "presets/suggest.hpp"

namespace plan::hugging_face {
namespace {

/// axolotl 0.13, src/axolotl/utils/schemas.
constexpr Renamed kAxolotl[] = {
    {"base_model", "args.model_name_or_path"},
    {"sequence_len", "args.max_seq_length"},
    {"micro_batch_size", "args.per_device_train_batch_size"},
    {"optimizer", "args.optim"},
    {"lora_target_modules", "args.lora_target"},
    {"dp_shard_size", "acc.parallelism_config.parallelism_config_dp_shard_size"},
    {"dp_replicate_size", "acc.parallelism_config.parallelism_config_dp_replicate_size"},
    {"tensor_parallel_size", "acc.parallelism_config.parallelism_config_tp_size"},
    {"context_parallel_size", "acc.parallelism_config.parallelism_config_cp_size"},
    {"sequence_parallel_degree", "acc.parallelism_config.parallelism_config_cp_size"},
    {"fsdp_version", "acc.fsdp_config.fsdp_version"},
};

/// torchtune 0.6, recipes/configs.
constexpr Renamed kTorchtune[] = {
    {"batch_size", "args.per_device_train_batch_size"},
    {"tokenizer.max_seq_len", "args.max_seq_length"},
    {"enable_activation_checkpointing", "args.gradient_checkpointing"},
    {"model.lora_rank", "args.lora_rank"},
    {"model.use_dora", "args.use_dora"},
    {"tensor_parallel_dim", "acc.parallelism_config.parallelism_config_tp_size"},
    {"context_parallel_dim", "acc.parallelism_config.parallelism_config_cp_size"},
    {"data_parallel_replicate_dim", "acc.parallelism_config.parallelism_config_dp_replicate_size"},
    {"fsdp_cpu_offload", "acc.fsdp_config.fsdp_offload_params"},
    {"fsdp_reshard_after_forward", "acc.fsdp_config.fsdp_reshard_after_forward"},
};

/// OpenRLHF's supervised, preference, reward and PPO trainers: the flags of 0.8 and, with dots, those of its main
/// branch.
constexpr Renamed kOpenRlhf[] = {
    {"pretrain", "args.model_name_or_path"},
    {"model.model_name_or_path", "args.model_name_or_path"},
    {"max_len", "args.max_length"},
    {"data.max_len", "args.max_length"},
    {"train_batch_size", "ds.train_batch_size"},
    {"train.batch_size", "ds.train_batch_size"},
    {"micro_train_batch_size", "ds.train_micro_batch_size_per_gpu"},
    {"train.micro_batch_size", "ds.train_micro_batch_size_per_gpu"},
    {"zero_stage", "ds.zero_optimization.stage"},
    {"ds.zero_stage", "ds.zero_optimization.stage"},
    {"ds_tensor_parallel_size", "ds.tensor_parallel.autotp_size"},
    {"ds.tensor_parallel_size", "ds.tensor_parallel.autotp_size"},
    {"model.gradient_checkpointing_enable", "args.gradient_checkpointing"},
    {"ds.lora.rank", "args.lora_rank"},
    {"ds.lora.target_modules", "args.lora_target"},
    {"target_modules", "args.lora_target"},
    {"ds.lora.load_in_4bit", "args.load_in_4bit"},
    {"load_in_4bit", "args.load_in_4bit"},
    {"actor.model_name_or_path", "args.model_name_or_path"},
    {"actor.gradient_checkpointing_enable", "args.gradient_checkpointing"},
    {"ds.ring_attn_size", "args.ring_attn_size"},
    {"train.dynamic_batch_enable", "args.batching_strategy"},
    {"use_dynamic_batch", "args.batching_strategy"},
};

/// What the lengths and GPUs of PPO's actor are stated by.
constexpr std::string_view kOfActor[] = {"prompt_max_len",  "generate_max_len",        "actor_num_nodes",
                                         "actor.num_nodes", "actor_num_gpus_per_node", "actor.num_gpus_per_node"};

constexpr std::size_t kMostDots = 3;  ///< places in a name that may be one: `qwen2_5_1_5b` has three

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

/// `llama3_1_8b` is llama3.1-8b and `qwen2_1_5b` qwen2-1.5b: a dot between digits is of the version or of the size.
/// The spelling that is a model's name; if none is, that in which a version's parts are single digits.
std::string spelt(std::string name) {
  const auto digit = [&](std::size_t at) { return at < name.size() && name[at] >= '0' && name[at] <= '9'; };
  std::vector<std::size_t> open;
  for (std::size_t i = 1; i + 1 < name.size(); ++i) {
    if (name[i] != '_') continue;
    const bool between = digit(i - 1) && digit(i + 1);
    if (between && open.size() < kMostDots) open.push_back(i);
    name[i] = between && (i + 2 == name.size() || name[i + 2] == '_') ? '.' : '-';
  }
  if (model_named(name)) return name;
  for (std::size_t dots = 0; dots < std::size_t{1} << open.size(); ++dots) {
    std::string other = name;
    for (std::size_t i = 0; i < open.size(); ++i) other[open[i]] = (dots >> i & 1) != 0 ? '.' : '-';
    if (model_named(other)) return other;
  }
  return name;
}

/// `torchtune.models.llama3_1.qlora_llama3_1_8b`: its adapters, and `llama3.1-8b`.
std::pair<std::string, std::string> torchtune_model(std::string name) {
  name = name.substr(name.rfind('.') + 1);
  std::string adapter = "full";
  for (const std::string_view word : {"lora_", "qlora_"})
    if (name.starts_with(word)) {
      adapter = word.substr(0, word.size() - 1);
      name.erase(0, word.size());
    }
  return {adapter, spelt(std::move(name))};
}

}  // namespace

std::vector<std::string_view> own_names(std::string_view tool) {
  std::vector<std::string_view> out;
  const auto take = [&](const auto& rows) {
    for (const Renamed& row : rows) out.push_back(row.from);
  };
  if (tool == "axolotl") take(kAxolotl);
  if (tool == "torchtune") take(kTorchtune);
  if (tool.starts_with("openrlhf")) {
    take(kOpenRlhf);
    out.insert(out.end(), std::begin(kOfActor), std::end(kOfActor));
  }
  return out;
}

/// axolotl's `fsdp:` and `fsdp_config:` as accelerate's; names may lack the `fsdp_` that accelerate has.
void take_axolotl(const LaunchSource& source, const Settings& keys, Settings& all, bool follow) {
  constexpr std::string_view kFsdp = "fsdp_config.";
  const Setting none{.key = {}, .value = {}, .items = {}, .list = false, .place = {source.path, 1, 1, 1, {}}};
  set(all, "tool", "axolotl", none);
  bool fsdp = false;
  for (const Setting& setting : keys.all()) {
    const std::string_view key = setting.key;
    if (key.starts_with("pretraining_dataset")) set(all, "args.stage", "pt", setting);
    if (key.starts_with(kFsdp)) {
      set_fsdp(all, key.substr(kFsdp.size()), setting);
      fsdp = true;
    } else {
      set(all, renamed(kAxolotl, key), setting);
      const auto cuts = [](const std::string& item) { return has(item, "CutCrossEntropy"); };
      if (key == "plugins" && !keys.states("cut_cross_entropy") &&
          std::any_of(setting.items.begin(), setting.items.end(), cuts))
        set(all, "args.cut_cross_entropy", "true", setting);
      if (key == "fsdp" && (!setting.items.empty() || !setting.value.empty())) fsdp = true;
    }
    if (key == "deepspeed" && !setting.value.empty() && follow) follow_deepspeed(source, setting, all);
  }
  if (fsdp) set(all, "acc.distributed_type", "FSDP", none);
}

std::string_view open_rlhf_stage(const ShellCommand& command) {
  constexpr std::string_view kProgram = "openrlhf.cli.train_";
  for (const ShellWord& word : command.words)
    for (const std::string_view stage : {"sft", "dpo", "kto", "rm", "ppo_ray", "ppo"})
      if (word.text == std::string(kProgram) + std::string(stage)) return stage.substr(0, 3);
  return {};
}

/// PPO's sequence is a prompt with its answer, and its actor has GPUs of its own.
void take_actor(const Settings& flags, Settings& all) {
  std::int64_t prompt = 0, answer = 0, nodes = 0, each = 0;
  Setting length, ranks;
  for (const Setting& setting : flags.all()) {
    const std::string_view key = setting.key;
    if (std::find(std::begin(kOfActor), std::end(kOfActor), key) == std::end(kOfActor)) continue;
    const bool length_of = key == "prompt_max_len" || key == "generate_max_len";
    if (!length_of && setting.value.find('$') != std::string::npos) continue;  // `--gpus` says how many
    const std::int64_t number = counted_number(setting, all);
    if (key == "prompt_max_len") prompt = number, length = setting;
    if (key == "generate_max_len") answer = number;
    if (key == "actor_num_nodes" || key == "actor.num_nodes") nodes = number, ranks = setting;
    if (key == "actor_num_gpus_per_node" || key == "actor.num_gpus_per_node") each = number;
  }
  if (prompt > 0 && answer > 0) set(all, "args.max_length", fmt::format("{}", prompt + answer), length);
  if (nodes > 0 && each > 0) set(all, "acc.num_processes", fmt::format("{}", nodes * each), ranks);
}

/// What stands for DeepSpeed's keys under `--backend fsdp2` (openrlhf/utils/fsdp2/fsdp2.py); ZeRO's stage is not looked
/// at there, so that it has none.
constexpr Renamed kUnderFsdp[] = {
    {"ds.zero_optimization.stage", ""},
    {"ds.zero_optimization.offload_optimizer.device", "acc.fsdp_config.fsdp_offload_params"},
    {"ds.train_batch_size", "args.global_batch_size"},
    {"ds.train_micro_batch_size_per_gpu", "args.per_device_train_batch_size"},
    {"ds.bf16.enabled", "args.bf16"},
    {"ds.fp16.enabled", "args.fp16"},
    {"args.fsdp_tensor_parallel_size", "acc.parallelism_config.parallelism_config_tp_size"},
};

/// `--backend fsdp2`: FSDP2 shards over the data ranks alone, so that the ranks of a ring keep the same weights.
/// @return whether it was chosen, and not DeepSpeed, the default
bool takes_fsdp2(const Settings& flags, Settings& all) {
  const Setting* const backend = flags.find("backend");
  if (backend == nullptr || backend->value == "deepspeed") return false;
  if (backend->value != "fsdp2") return all.refuse(*backend, "deepspeed or fsdp2"), false;
  set(all, "acc.distributed_type", "FSDP", *backend);
  set(all, "acc.fsdp_config.fsdp_version", "2", *backend);
  for (const char* key : {"ring_attn_size", "ds.ring_attn_size"})
    if (const Setting* ring = flags.find(key); ring != nullptr && ring->value != "1")
      all.errors().push_back({"unsupported_word",
                              fmt::format("{}: `{}` under `--backend fsdp2`: the ranks of a ring keep copies of what "
                                          "FSDP2 shards, which plan does not count",
                                          ring->where(), key),
                              {},
                              {"write `--backend deepspeed` and `--zero_stage N`"}});
  return true;
}

/// The flags of an OpenRLHF trainer: it makes DeepSpeed's configuration of them.
void take_open_rlhf(std::string_view stage, const Settings& flags, const Setting& start, Settings& all) {
  bool sharded = false, typed = false, dotted = false;
  if (stage == "ppo") take_actor(flags, all);
  const bool fsdp = takes_fsdp2(flags, all);
  const auto put = [&](const std::string& key, const std::string& value, const Setting& from) {
    const auto* row = std::find_if(std::begin(kUnderFsdp), std::end(kUnderFsdp),
                                   [&](const Renamed& one) { return fsdp && one.from == key; });
    Setting setting = from;
    setting.value = row != std::end(kUnderFsdp) && row->to == "acc.fsdp_config.fsdp_offload_params" ? "true" : value;
    if (row == std::end(kUnderFsdp) || !row->to.empty())
      set(all, row == std::end(kUnderFsdp) ? key : std::string(row->to), setting);
  };
  for (const Setting& setting : flags.all()) {
    const std::string_view key = setting.key;
    const std::string to = renamed(kOpenRlhf, key), word = lowered(setting.value);
    dotted |= key.find('.') != std::string_view::npos;
    sharded |= to == "ds.zero_optimization.stage";
    if (to == "args.lora_rank" && word != "0") set(all, "args.finetuning_type", "lora", setting);
    if (key == "prompt_max_len" || key == "generate_max_len") continue;
    if (key == "param_dtype" || key == "ds.param_dtype" || key == "bf16") {
      put(word == "fp16" ? "ds.fp16.enabled" : "ds.bf16.enabled", "true", setting);
      typed = true;
    } else if ((key == "adam_offload" || key == "ds.adam_offload") && word == "true") {
      put("ds.zero_optimization.offload_optimizer.device", "cpu", setting);
    } else if (key != "backend") {
      put(to, setting.value, setting);
    }
  }
  if (!typed && (dotted || fsdp)) put("ds.bf16.enabled", "true", start);  // the default of both
  set(all, "args.stage", std::string(stage), start);
  set(all, "tool",
      stage == "ppo"  ? dotted ? "openrlhf-ppo-main" : "openrlhf-ppo"
      : stage == "rm" ? "openrlhf-rm"
                      : "openrlhf",
      start);
  if (!sharded && !fsdp && all.errors().empty())
    all.errors().push_back(
        {"missing_flag",
         fmt::format("{}: OpenRLHF's ZeRO stage is not stated", start.where()),
         {},
         {"add `--zero_stage N`, or `--ds.zero_stage N` on its main branch; FSDP2 is `--backend fsdp2`"}});
}

/// torchtune's keys as the Trainer's; its distributed recipes shard everything with FSDP2.
void take_torchtune(const LaunchSource& source, const Settings& keys, Settings& all) {
  const Setting none{.key = {}, .value = {}, .items = {}, .list = false, .place = {source.path, 1, 1, 1, {}}};
  const bool one_device = has(source.text, "single_device") && !has(source.text, "_distributed");
  set(all, "tool", "torchtune", none);
  if (!one_device) {
    set(all, "acc.distributed_type", "FSDP", none);
    set(all, "acc.fsdp_config.fsdp_version", "2", none);
  } else {
    set(all, "acc.distributed_type", "NO", none);
    set(all, "acc.num_processes", "1", none);
  }
  const bool ffn = std::any_of(keys.all().begin(), keys.all().end(), [](const Setting& setting) {
    return setting.key == "model.apply_lora_to_mlp" && truth_of(setting.value).value_or(false);
  });
  for (const Setting& setting : keys.all()) {
    const std::string_view key = setting.key;
    if (!setting.list && (setting.value.empty() || setting.value == "null")) continue;
    if (key == "model._component_") {
      const auto [adapter, model] = torchtune_model(setting.value);
      set(all, "args.model_name_or_path", model, setting);
      set(all, "args.finetuning_type", adapter, setting);
    } else if (key == "optimizer._component_") {
      set(all, "args.optim", setting.value.substr(setting.value.rfind('.') + 1), setting);
    } else if (key == "model.lora_attn_modules") {
      Setting modules = setting;
      if (ffn) modules.items.emplace_back("mlp");
      set(all, "args.lora_target", modules);
    } else if (key == "model.apply_lora_to_mlp") {
      continue;  // is among the modules of attention
    } else if (key == "data_parallel_shard_dim") {
      if (to_integer(setting.value).value_or(0) > 0)  // -1: all that the other degrees leave
        set(all, "acc.parallelism_config.parallelism_config_dp_shard_size", setting);
    } else if (key.starts_with("quantizer.")) {
      set(all, "args.quantizer", setting);
    } else if (key == "loss._component_" && has(lowered(setting.value), "dpo")) {
      set(all, "args.rl", "dpo", setting);
    } else if (key == "loss._component_" && has(setting.value, "LinearCrossEntropy")) {
      set(all, "args.loss_in_chunks", setting);
    } else if (key.starts_with("teacher_model.") || key.starts_with("ref_") || key.starts_with("reward_and_value") ||
               key.starts_with("policy_model.")) {
      set(all, "args.stage", "another model beside the trained one", setting);
    } else if (key.starts_with("tensor_parallel_plan.")) {
      continue;  // which linears are split goes without saying
    } else if (one_device && key.find("parallel_dim") != std::string_view::npos) {
      continue;
    } else {
      set(all, renamed(kTorchtune, key), setting);
    }
  }
}

/// LLaMA-Factory's second generation, src/llamafactory/v1/config: plugins for sharding and adapters.
void take_factory(const LaunchSource& source, const Settings& keys, Settings& all, bool follow) {
  constexpr Renamed kFactory[] = {
      {"model", "args.model_name_or_path"},
      {"micro_batch_size", "args.per_device_train_batch_size"},
      {"enable_activation_checkpointing", "args.gradient_checkpointing"},
      {"peft_config.name", "args.finetuning_type"},
      {"peft_config.r", "args.lora_rank"},
      {"peft_config.target_modules", "args.lora_target"},
      {"quant_config.quantization_bit", "args.quantization_bit"},
      {"cp_size", "acc.parallelism_config.parallelism_config_sp_size"},
      {"dist_config.cp_size", "acc.parallelism_config.parallelism_config_sp_size"},
      {"mp_replicate_size", "acc.parallelism_config.parallelism_config_dp_replicate_size"},
  };
  const Setting none{.key = {}, .value = {}, .items = {}, .list = false, .place = {source.path, 1, 1, 1, {}}};
  set(all, "tool", "llama-factory-v1", none);
  for (const Setting& setting : keys.all()) {
    set(all, renamed(kFactory, setting.key), setting);
    if (setting.key == "dist_config.config_file" && follow) follow_deepspeed(source, setting, all);
    if (setting.key != "dist_config.name" || !setting.value.starts_with("fsdp")) continue;
    set(all, "acc.distributed_type", "FSDP", setting);
    set(all, "acc.fsdp_config.fsdp_version", "2", setting);
    if (setting.value != "fsdp2") set(all, "args.dist_plugin", setting);
  }
}

}  // namespace plan::hugging_face
