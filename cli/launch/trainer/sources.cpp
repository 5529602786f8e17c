// Files and commands around Hugging Face's Trainer, brought to one set of keys: `args.` for the Trainer's arguments,
// `acc.` for accelerate's file, `ds.` for DeepSpeed's. ms-swift's own names are rows of a table; files
// that another one names (`deepspeed: ds_z3.json`) are opened. Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <set>

#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/launch/trainer/sources.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan::hugging_face {
namespace {

/// ms-swift 3 and 4, swift/arguments.
constexpr Renamed kSwift[] = {
    {"model", "args.model_name_or_path"},    {"max_length", "args.max_seq_length"},
    {"train_type", "args.tuner_type"},       {"sft_type", "args.tuner_type"},
    {"quant_bits", "args.quantization_bit"}, {"target_modules", "args.lora_target"},
    {"torch_dtype", "args.swift_dtype"},
};

/// Keys of accelerate's `deepspeed_config:` that DeepSpeed's own file has under another name.
constexpr Renamed kInline[] = {
    {"zero_stage", "ds.zero_optimization.stage"},
    {"offload_optimizer_device", "ds.zero_optimization.offload_optimizer.device"},
    {"offload_param_device", "ds.zero_optimization.offload_param.device"},
    {"gradient_accumulation_steps", "ds.gradient_accumulation_steps"},
    {"gradient_clipping", "ds.gradient_clipping"},
};

bool has(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

/// Is a key at the start of a line?
bool has_key(const std::string& text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1))
    if (at == 0 || text[at - 1] == '\n') return true;
  return false;
}

/// Does the object of a JSON file have the key itself, and not an object within it?
bool has_own_key(const std::string& text, std::string_view key) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!quoted && depth == 1 && std::string_view(text).substr(i).starts_with(key)) return true;
    if (c == '\\' && quoted)
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted)
      depth += static_cast<int>(c == '{' || c == '[') - static_cast<int>(c == '}' || c == ']');
  }
  return false;
}

/// A key of accelerate's file by its full name, which its compiler's section may leave out and old files have at the
/// top.
std::string accelerate_key(const std::string& key) {
  constexpr std::string_view kSection = "dynamo_config.", kPrefix = "dynamo_";
  if (key == "dynamo_backend") return fmt::format("acc.{}{}", kSection, key);
  if (key.starts_with(kSection) && !key.substr(kSection.size()).starts_with(kPrefix))
    return fmt::format("acc.{}{}{}", kSection, kPrefix, key.substr(kSection.size()));
  return "acc." + key;
}

void take_accelerate(const LaunchSource& source, const Settings& keys, Settings& all, bool follow) {
  constexpr std::string_view kSection = "deepspeed_config.", kSharding = "fsdp_config.", kHalf = "fp16";
  const auto states = [&](std::string_view key) {
    return std::any_of(keys.all().begin(), keys.all().end(), [&](const Setting& one) { return one.key == key; });
  };
  for (const Setting& setting : keys.all()) {
    if (setting.key == kHalf) {  // of files before `mixed_precision`
      if (!states("mixed_precision"))
        set(all, "acc.mixed_precision", truth_of(setting.value).value_or(false) ? "fp16" : "no", setting);
      continue;
    }
    if (setting.key.starts_with(kSharding))
      set_fsdp(all, std::string_view(setting.key).substr(kSharding.size()), setting);
    else
      set(all, accelerate_key(setting.key), setting);
    if (!setting.key.starts_with(kSection)) continue;
    const std::string_view key = std::string_view(setting.key).substr(kSection.size());
    if (key == "deepspeed_config_file" && follow) follow_deepspeed(source, setting, all);
    for (const Renamed& row : kInline)
      if (row.from == key) set(all, std::string(row.to), setting);
  }
}

/// `accelerate launch --config_file FILE`: how the job is sharded is stated there.
void follow_accelerate(const LaunchSource& source, const Setting& named, Settings& all, bool follow) {
  const std::optional<LaunchSource> file = beside(source, named.value);
  if (file && kind_of(*file) == Kind::Accelerate) {
    const bool json = file->text.find_first_not_of(" \t\r\n") == file->text.find('{');
    if (const Result<Settings> keys = json ? settings_of_json(*file) : settings_of_yaml(*file)) {
      all.remember(*file);
      return take_accelerate(*file, *keys, all, follow);
    }
  }
  set(all, "acc.missing_file", named);
}

/// `accelerate launch --use_fsdp --fsdp_sharding_strategy SHARD_GRAD_OP`, `--use_deepspeed --zero_stage 3`: keys of its
/// file as flags, which go over the file that is named. Which of the flags it has taken.
std::set<std::string, std::less<>> take_accelerate_flags(const LaunchSource& source, Settings& flags, Settings& all,
                                                         bool follow) {
  std::set<std::string, std::less<>> taken;
  const auto take = [&](const Setting& setting, std::string key) {
    set(all, std::move(key), setting);
    taken.insert(setting.key);
  };
  for (const auto& [flag, type] : {std::pair{"use_fsdp", "FSDP"}, std::pair{"use_deepspeed", "DEEPSPEED"}}) {
    const Setting* given = flags.get(flag);
    if (given == nullptr) continue;
    set(all, "acc.distributed_type", type, *given);
    taken.insert(flag);
  }
  const std::string type = all.text("acc.distributed_type").value_or("");
  bool staged = all.states("ds.zero_optimization.stage");
  for (const Setting& setting : flags.all()) {
    const std::string_view key = setting.key;
    if (key == "num_machines" && !type.empty()) take(setting, "acc.num_machines");
    if (key.starts_with("parallelism_config_")) take(setting, "acc.parallelism_config." + setting.key);
    if (type == "FSDP" && key.starts_with("fsdp_") && key != "fsdp_config")
      take(setting, "acc.fsdp_config." + setting.key);
    if (type != "DEEPSPEED" || key == "gradient_accumulation_steps") continue;  // the Trainer's own
    if (key == "deepspeed_config_file" && follow) follow_deepspeed(source, setting, all);
    if (key == "deepspeed_config_file") taken.insert(setting.key);
    for (const Renamed& row : kInline)
      if (row.from == key) take(setting, std::string(row.to));
    staged |= key == "zero_stage" || key == "deepspeed_config_file";
  }
  // accelerate's own default
  if (!staged && taken.contains("use_deepspeed"))
    set(all, "ds.zero_optimization.stage", "2", *flags.get("use_deepspeed"));
  return taken;
}

/// Whether an argument names DeepSpeed's file, as the Trainer has it or as programs of their own call it.
bool names_deepspeed(const Setting& setting) {
  constexpr std::string_view kNames[] = {"deepspeed",      "deepspeed_config",      "deepspeed_config_file",
                                         "deepspeed_file", "deepspeed_config_path", "deepspeed_path",
                                         "ds_config",      "ds_config_file",        "ds_config_path"};
  const std::string value = lowered(setting.value);
  return std::find(std::begin(kNames), std::end(kNames), setting.key) != std::end(kNames) &&
         (setting.key == kNames[0] ? !switched_off(value) : value.ends_with(".json"));
}

void take_trainer(const LaunchSource& source, const Settings& keys, Settings& all, bool follow) {
  // ms-swift names the model by `model:`, and how it is tuned by words of its own.
  const bool swift = keys.states("model") && !keys.states("model_name_or_path") &&
                     (keys.states("tuner_type") || keys.states("train_type"));
  for (const Setting& setting : keys.all()) {
    const bool deepspeed = names_deepspeed(setting);
    set(all, deepspeed ? "args.deepspeed" : swift ? renamed(kSwift, setting.key) : "args." + setting.key, setting);
    if (deepspeed && follow) follow_deepspeed(source, setting, all);
  }
  const Setting none{.key = {}, .value = {}, .items = {}, .list = false, .place = {source.path, 1, 1, 1, {}}};
  set(all, std::string(kOwnArguments), "", keys.all().empty() ? none : keys.all().front());  // a line that has words
  if (keys.states("finetuning_type") || keys.states("cutoff_len"))
    set(all, "tool", "llama-factory", none);
  else if (swift)
    set(all, "tool", "ms-swift", none);
}

bool trains(const ShellCommand& command) {
  if (!open_rlhf_stage(command).empty()) return true;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    if (word.ends_with("swift/cli/sft.py") || names_micro_batch(word)) return true;
    if ((word == "swift" || word.ends_with("/swift")) && i + 1 < command.words.size()) {
      const std::string& verb = command.words[i + 1].text;
      if (verb == "sft" || verb == "pt") return true;
    }
  }
  return false;
}

/// `--key value`, `--key=value` or `--key` of a command, from word `i` on, which moves behind it.
Setting flag_at(const ShellCommand& command, std::size_t& i, const std::string& file) {
  const ShellWord& word = command.words[i];
  Setting setting{
      .key = word.text.substr(2), .value = "true", .items = {}, .list = false, .place = {file, word.line, 1, 1, {}}};
  if (const std::size_t equals = setting.key.find('='); equals != std::string::npos) {
    setting.value = setting.key.substr(equals + 1);
    setting.key.resize(equals);
  } else {
    std::vector<std::string> values;
    if (i + 1 < command.words.size() && !command.words[i + 1].text.starts_with("--"))
      setting.place.line = command.words[i + 1].line;  // where it was assigned, not its use
    while (i + 1 < command.words.size() && !command.words[i + 1].text.starts_with("--"))
      values.push_back(command.words[++i].text);
    if (!values.empty()) setting.value = values.front();
    if (values.size() > 1) setting.items = std::move(values);
  }
  std::replace(setting.key.begin(), setting.key.end(), '-', '_');
  return setting;
}

/// The Trainer's flags of a command, and the files that it names.
void take_command(const LaunchSource& source, const ShellCommand& command, Settings& all, bool follow) {
  const Setting none{
      .key = {}, .value = {}, .items = {}, .list = false, .place = {source.path, command.words.front().line, 1, 1, {}}};
  const bool swift = std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    return word.text == "swift" || word.text.ends_with("/swift") || word.text.ends_with("swift/cli/sft.py");
  });
  const std::string_view stage = open_rlhf_stage(command);
  Settings flags;
  if (swift) take_swift_file(source, command, flags, all);
  std::vector<Setting> stated;
  for (std::size_t i = 0; i < command.words.size(); ++i)
    if (command.words[i].text.starts_with("--")) stated.push_back(flag_at(command, i, source.path));
  if (stage.empty()) take_sections(stated, all);
  for (Setting& flag : stated) flags.add(std::move(flag));
  if (!stage.empty()) return take_open_rlhf(stage, flags, none, all);
  if (swift)
    take_swift_config(source, flags, all);
  else
    take_argument_file(source, command, flags, all);
  if (const Setting* named = flags.get("config_file")) follow_accelerate(source, *named, all, follow);
  const std::set<std::string, std::less<>> taken = take_accelerate_flags(source, flags, all, follow);
  bool shards = flags.states("zero_stage");
  // A flag of this launcher's, which it reads with `--use_deepspeed` alone.
  const bool accelerate = std::any_of(command.words.begin(), command.words.end(),
                                      [](const ShellWord& word) { return base_name(word.text) == "accelerate"; });
  for (const Setting& setting : flags.all()) {
    const std::string_view key = setting.key;
    if (taken.contains(key)) continue;
    if (take_object(setting, all)) continue;
    const bool own = key == "deepspeed" || key == "deepspeed_config";  // a switch, too; any value names a file
    const bool file =
        own ? setting.value != "true" : !(accelerate && key == "deepspeed_config_file") && names_deepspeed(setting);
    shards |= own || file;
    set(all, file && !own ? "args.deepspeed" : swift ? renamed(kSwift, key) : "args." + setting.key, setting);
    if (file && follow) follow_deepspeed(source, setting, all);
  }
  take_chat(flags, all);
  take_learners(flags, all);
  // `autoalign-cli dpo`, `trl kto`: the verb is the stage.
  for (std::size_t i = 1; i < command.words.size() && !command.words[i].text.starts_with("--"); ++i)
    if (is_stage(command.words[i].text) && !flags.states("stage")) set(all, "args.stage", command.words[i].text, none);
  for (const ShellWord& word : command.words)
    if (word.text == "trl" || word.text.ends_with("/trl") || word.text.find("trl/scripts/") != std::string::npos ||
        word.text.ends_with("examples/scripts/sft.py") || word.text.starts_with("trl.scripts."))
      set(all, "trl", none);
  set(all, "args.launched", base_name(command.words.front().text) == "deepspeed" && !shards ? "deepspeed" : "true",
      none);
  for (const ShellWord& word : command.words)
    if (word.text.ends_with(".py") && has(lowered(std::string(base_name(word.text))), "lora"))
      set(all, "args.may train adapters", word.text, none);
  if (const std::string named = stage_of_program(command); !named.empty())
    set(all, "args.stage by its name", named, none);
  if (swift)
    set(all, "tool", "ms-swift", none);
  else if (flags.states("finetuning_type") || flags.states("cutoff_len"))
    set(all, "tool", "llama-factory", none);
}

void take_script(const LaunchSource& source, Settings& all, bool follow) {
  const Script& script = follow_script(source);
  const ShellCommand* last = nullptr;
  std::string differ;
  for (const ShellCommand& command : script.commands) {
    if (!trains(command)) continue;
    if (last != nullptr && differ.empty()) differ = differing_flags(*last, command);
    if (last != nullptr && last->words.front().line != command.words.front().line && !starts_the_same(*last, command))
      all.errors().push_back({"several_trainings",
                              fmt::format("{}: lines {} and {} each start a training; which one is meant is not known",
                                          source.path, last->words.front().line, command.words.front().line),
                              {},
                              {"give a script with one of them"}});
    last = &command;
  }
  if (last != nullptr && !differ.empty())
    all.add(
        {.key = std::string(kOfALoop), .value = differ, .place = {source.path, last->words.front().line, 1, 1, {}}});
  if (last != nullptr)
    take_command(source, *last, all, follow);
  else
    all.errors().push_back({"training_not_understood",
                            fmt::format("{}: no command that starts the Trainer was found", source.path),
                            {},
                            {"state the job with `--model`, `--gpus` and `--layout`"}});
}

}  // namespace

void set(Settings& all, std::string key, const Setting& from) {
  Setting setting = from;
  setting.key = std::move(key);
  all.add(std::move(setting));
}
void set(Settings& all, std::string key, std::string value, const Setting& from) {
  Setting setting = from;
  setting.key = std::move(key), setting.value = std::move(value), setting.list = false, setting.items.clear();
  all.add(std::move(setting));
}

std::int64_t counted_number(const Setting& setting, Settings& all) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::optional<std::int64_t> number = setting.list ? std::nullopt : to_integer(setting.value);
  if (number && *number >= 1 && *number <= kMost) return *number;
  all.refuse(setting, fmt::format("a whole number from 1 to {}", kMost));
  return 0;
}

void set_fsdp(Settings& all, std::string_view key, const Setting& from) {
  set(all, fmt::format("acc.fsdp_config.{}{}", key.starts_with("fsdp_") ? "" : "fsdp_", key), from);
}

std::string key_of_swift(std::string_view flag) { return renamed(kSwift, flag); }

std::string renamed(std::span<const Renamed> table, std::string_view key) {
  for (const Renamed& row : table)
    if (row.from == key) return std::string(row.to);
  return "args." + std::string(key);
}

Kind kind_of(const LaunchSource& source) {
  const std::string& text = source.text;
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos) return Kind::None;
  if (is_shell(source)) {
    const bool flags = mentions_micro_batch(text);
    const bool rlhf = has(text, "openrlhf.cli.train_");
    return flags || rlhf || has(text, "swift sft") || has(text, "swift pt") || has(text, "swift/cli/sft.py")
               ? Kind::Script
               : Kind::None;
  }
  if (text[start] == '{') {
    if (has_own_key(text, "\"log_history\"")) return Kind::None;  // what the Trainer keeps beside a checkpoint
    if (has_own_key(text, "\"per_device_train_batch_size\"")) return Kind::Trainer;
    if (has(text, "\"distributed_type\"") && has(text, "\"compute_environment\"")) return Kind::Accelerate;
    for (const std::string_view key :
         {"\"train_batch_size\"", "\"train_micro_batch_size_per_gpu\"", "\"zero_optimization\""})
      if (has(text, key)) return Kind::DeepSpeed;
    return Kind::None;
  }
  if (source.path.ends_with(".py") || source.path.ends_with(".toml")) return Kind::None;
  if (has_key(text, "distributed_type:") && (has(text, "num_processes:") || has(text, "compute_environment:")))
    return Kind::Accelerate;
  if (has_key(text, "base_model:") &&
      (has_key(text, "datasets:") || has_key(text, "micro_batch_size:") || has_key(text, "sequence_len:")))
    return Kind::Axolotl;
  if (has_key(text, "model:") && has_key(text, "micro_batch_size:") &&
      (has_key(text, "model_class:") || has_key(text, "dist_config:")))
    return Kind::Factory;
  if (has(text, "_component_: torchtune.models.") && has_key(text, "batch_size:") && has_key(text, "optimizer:"))
    return Kind::Torchtune;
  if (has_key(text, "do_predict:") && !has_key(text, "do_train:")) return Kind::None;  // nothing is trained
  if (has_key(text, "per_device_train_batch_size:")) return Kind::Trainer;
  return has_key(text, "model_name_or_path:") && has_key(text, "stage:") && has_key(text, "do_train:") ? Kind::Trainer
                                                                                                       : Kind::None;
}

Result<Settings> settings_of(std::span<const LaunchSource> files) {
  Settings all;
  const bool own_deepspeed = std::any_of(files.begin(), files.end(), [](const LaunchSource& file) {
    return kind_of(file) == Kind::DeepSpeed;  // given by itself: what another names need not be opened
  });
  for (const LaunchSource& file : files) {
    const Kind kind = kind_of(file);
    if (kind == Kind::Script || is_shell(file)) {  // or a script that calls one
      all.remember(file);
      take_script(file, all, !own_deepspeed);
      continue;
    }
    const std::size_t start = file.text.find_first_not_of(" \t\r\n");
    const bool json = start != std::string::npos && file.text[start] == '{';
    const Result<Settings> one = json ? settings_of_json(file) : settings_of_yaml(file);
    if (!one) return tl::unexpected(one.error());
    all.remember(file);
    if (kind == Kind::Accelerate) take_accelerate(file, *one, all, !own_deepspeed);
    if (kind == Kind::Axolotl) take_axolotl(file, *one, all, !own_deepspeed);
    if (kind == Kind::Torchtune) take_torchtune(file, *one, all);
    if (kind == Kind::Factory) take_factory(file, *one, all, !own_deepspeed);
    if (kind == Kind::Trainer) take_trainer(file, *one, all, !own_deepspeed);
    if (kind == Kind::DeepSpeed)
      for (const Setting& setting : one->all()) set(all, "ds." + setting.key, setting);
  }
  take_other_names(all);
  take_fsdp(files, all);
  take_model_section(all);
  return all;
}

}  // namespace plan::hugging_face
