// EasyR1, which is built on verl and has keys of its own: verl/trainer/main.py and config.py, 0.3.2. Words of a command
// lie over the file of its `config=`. Tested by tests/launch/easyr1_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/unread.hpp"
#include "cli/launch/post_training/fsdp_dialects.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kActor = "worker.actor.", kProgram = "verl.trainer.main",
                           kWithoutReference = "algorithm.disable_kl", kOnlyValidates = "trainer.val_only";

/// Keys of its actor, in its own order. It stops at another one.
constexpr auto kActorKeys = word_list([] {
  return "strategy global_batch_size micro_batch_size_per_device_for_update micro_batch_size_per_device_for_experience "
         "max_grad_norm clip_ratio_low clip_ratio_high clip_ratio_dual loss_avg_mode loss_type ppo_epochs padding_free "
         "dynamic_batching ulysses_size ulysses_sequence_parallel_size use_torch_compile tau_positive tau_negative "
         "model.model_path model.tokenizer_path model.override_config model.enable_gradient_checkpointing "
         "model.trust_remote_code model.freeze_vision_tower model.lora.rank model.lora.alpha model.lora.target_modules "
         "model.lora.exclude_modules optim.lr optim.betas optim.weight_decay optim.strategy optim.lr_warmup_ratio "
         "optim.lr_warmup_steps optim.min_lr_ratio optim.lr_scheduler_type fsdp.enable_full_shard "
         "fsdp.enable_cpu_offload fsdp.enable_rank0_init fsdp.use_orig_params fsdp.torch_dtype fsdp.fsdp_size "
         "fsdp.mp_param_dtype fsdp.mp_reduce_dtype fsdp.mp_buffer_dtype offload.offload_params "
         "offload.offload_optimizer";
});

void tell_unknown(const StatedKeys& keys, LaunchJob& job) {
  for (const auto& [key, value] : keys) {
    const std::string_view own = std::string_view(key).substr(std::min(key.size(), kActor.size()));
    if (key.starts_with(kActor) && !own.starts_with("model.override_config.") &&
        std::find(kActorKeys.begin(), kActorKeys.end(), own) == kActorKeys.end())
      unused(job, "not_used",
             fmt::format("{}: `{}` is unknown to EasyR1 0.3.2, which stops there", value.where, yaml::printable(key)));
  }
}

bool starts(const ShellCommand& command, std::string_view start) {
  return std::any_of(command.words.begin(), command.words.end(),
                     [&](const ShellWord& word) { return word.text.starts_with(start); });
}

bool trains(const ShellCommand& command) {
  const bool program = std::any_of(command.words.begin(), command.words.end(),
                                   [](const ShellWord& word) { return word.text == kProgram; });
  return !trains_nothing(command) && (starts(command, kActor) || (program && starts(command, "config=")));
}

Result<StatedKeys> keys_of(const LaunchSource& script) {
  const std::vector<ShellCommand>& commands = follow_script(script).commands;
  const bool actor = std::any_of(commands.begin(), commands.end(),
                                 [](const ShellCommand& command) { return starts(command, kActor); });
  Result<StatedKeys> keys = keys_of_overrides(script, actor ? kActor : kProgram);
  if (!keys) return keys;
  for (const ShellCommand& command : commands)
    for (const ShellWord& word : command.words)
      if (trains(command) && word.text.starts_with("--config"))
        return fail(Error{"unknown_flag",
                          fmt::format("{}:{}: EasyR1 takes no `{}`", script.path, word.line, word.text),
                          {},
                          {"write `config=FILE`"}});
  const auto named = keys->find("config");
  if (named == keys->end()) return keys;
  const StatedValue config = named->second;
  keys->erase(named);
  const std::string name = config.values.empty() ? "" : config.values.front();
  const std::optional<LaunchSource> file = beside(script, name);
  if (!file) return fail(missing_arguments(config.where, name));
  Result<StatedKeys> own = keys_of_yaml(*file);
  if (!own) return own;
  keys->insert(own->begin(), own->end());
  return keys;
}

}  // namespace

bool is_easyr1(const LaunchSource& source) {
  if (!is_shell(source))
    return mentions(source, "worker:") && mentions(source, "micro_batch_size_per_device_for_update:");
  if (!mentions(source, kActor) && !mentions(source, kProgram)) return false;
  const std::vector<ShellCommand>& commands = follow_script(source).commands;
  return std::any_of(commands.begin(), commands.end(), trains);
}

Result<LaunchJob> read_easyr1(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  StatedKeys keys;
  for (const LaunchSource& source : files) {
    Result<StatedKeys> own = is_shell(source) ? keys_of(source) : keys_of_yaml(source);
    if (!own) return fail(own.error());
    keys.insert(own->begin(), own->end());
  }
  interpolate(keys);
  if (is_on(keys, kOnlyValidates))
    return fail(Error{"not_a_training",
                      fmt::format("{}: with `{}` the program evaluates and trains nothing",
                                  where_of(keys, kOnlyValidates), kOnlyValidates),
                      {},
                      {fmt::format("remove `{}`", kOnlyValidates)}});
  Result<LaunchJob> job = read_easyr1_actor(keys, facts);
  if (job) tell_unknown(keys, *job);
  if (job && !is_on(keys, kWithoutReference))
    unused(*job, "not_counted",
           fmt::format("{}: `{}` is not on: the reference model beside the trained one is not counted",
                       keys.contains(kWithoutReference) ? where_of(keys, kWithoutReference) : files.front().path,
                       kWithoutReference));
  return job;
}

}  // namespace plan
