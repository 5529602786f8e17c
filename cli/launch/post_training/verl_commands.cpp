// Which commands start verl, and with which engine. Tested by tests/launch/verl_test.cpp.
#include "cli/launch/post_training/verl_commands.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/scripts/script_words.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/text.hpp"
#include "presets/yaml.hpp"

namespace plan::verl {
namespace {

/// A word of hydra's: `key=value`, of which `+` adds the key.
std::pair<std::string_view, std::string_view> override_in(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return {};
  std::string_view key = word.substr(0, equals);
  while (key.starts_with('+')) key.remove_prefix(1);
  return {key, word.substr(equals + 1)};
}

bool is_program(std::string_view word) {
  return word.ends_with(".py") || word.find(".main_") != word.npos || word.starts_with("main_") ||
         word.ends_with("sft_trainer");
}

/// The program that the command starts: a module or a file; empty if neither is seen.
std::string_view program_of(const ShellCommand& command) {
  for (const ShellWord& word : command.words)
    if (word.text.find('=') == std::string::npos && is_program(word.text)) return word.text;
  for (std::size_t i = 1; i < command.words.size(); ++i)
    if (command.words[i - 1].text == "-m") return command.words[i].text;
  return {};
}

/// Whether the command trains an actor, and neither samples from it nor judges it.
bool trains(const ShellCommand& command) {
  if (!override_in(command.words.front().text).first.empty()) return false;  // starts nothing
  const std::string_view program = program_of(command);
  if (trains_nothing(command)) return false;
  for (const std::string_view other : {"main_generation", "main_eval", "model_merger", "sft_trainer"})
    if (program.find(other) != std::string_view::npos) return false;
  for (const ShellWord& word : command.words)
    if (const auto [key, value] = override_in(word.text); key == "trainer.val_only" && truth_of(value).value_or(false))
      return false;
  return std::any_of(command.words.begin(), command.words.end(),
                     [](const ShellWord& word) { return override_in(word.text).first.starts_with(kActor); });
}

/// Whether the configuration that the command lies over is one of Megatron's engine.
bool megatron_below(const LaunchSource& script, const ShellCommand& command) {
  const std::optional<LaunchSource> config = config_beside(script, command);
  if (!config) return false;
  for (const std::string_view says : {"strategy: megatron", "model_engine: megatron", "- ppo_megatron_trainer"})
    if (config->text.find(says) != std::string::npos) return true;
  return false;
}

Engine engine_in(const LaunchSource& script, const ShellCommand& command) {
  std::optional<Engine> stated;
  bool megatron = false, named = false;
  for (const ShellWord& word : command.words) {
    const auto [key, value] = override_in(word.text);
    const bool says = value.find("megatron") != std::string_view::npos;
    if (key == "actor_rollout_ref.actor.strategy" || key == "model_engine")
      stated = says ? Engine::Megatron : Engine::Fsdp;
    // A name of an experiment, a path or a remark may speak of Megatron, too.
    megatron |= key.find(".megatron.") != std::string_view::npos || (key == "--config-name" && says) ||
                (named && word.text.find("megatron") != std::string::npos);
    named = word.text == "--config-name";
  }
  if (!stated && !megatron) megatron = megatron_below(script, command);
  return stated.value_or(megatron ? Engine::Megatron : Engine::Fsdp);
}

}  // namespace

std::optional<Engine> engine_of(const LaunchSource& script) {
  if (script.text.find(kActor) == std::string::npos) return std::nullopt;
  std::optional<Engine> out;
  for (const ShellCommand& command : follow_script(script).commands)
    if (trains(command)) out = engine_in(script, command);
  return out;
}

namespace {

/// Whether a word that is no override holds a part of a program's name.
bool names_part(const ShellCommand& command, std::string_view part) {
  return std::any_of(command.words.begin(), command.words.end(), [&](const ShellWord& word) {
    return word.text.find('=') == std::string::npos && word.text.find(part) != std::string::npos;
  });
}
/// Whether the command states a key.
bool overrides(const ShellCommand& command, std::string_view key) {
  return std::any_of(command.words.begin(), command.words.end(),
                     [&](const ShellWord& word) { return override_in(word.text).first == key; });
}

/// Whether a command starts a supervised trainer: a word of its own names one, and others say what it trains.
/// `pkill -f sft_trainer` does not.
bool starts_sft(const ShellCommand& command) {
  bool named = false, configured = false;
  for (const ShellWord& word : command.words) {
    const std::string_view text = word.text;
    const bool stated = text.find('=') != std::string_view::npos && !text.starts_with('-');
    named |= !stated && text.find(kSftProgram) != std::string_view::npos && !text.ends_with(".sh");
    configured |= (named && stated) || text.starts_with("--config-");
  }
  return named && configured;
}

/// Whether it trains with Megatron's engine. A name of an experiment and a path may speak of Megatron, too.
bool says_megatron(const ShellCommand& command) {
  constexpr std::string_view kNames[] = {"trainer.", "data.", "model.path", "model.partial_pretrain", "hydra."};
  return std::any_of(command.words.begin(), command.words.end(), [&](const ShellWord& word) {
    const auto starts = [&](std::string_view name) { return word.text.starts_with(name); };
    return word.text.find("megatron") != std::string::npos &&
           std::none_of(std::begin(kNames), std::end(kNames), starts);
  });
}

}  // namespace

Sft sft_of(const LaunchSource& script) {
  if (!mentions(script, kSftProgram)) return Sft::None;
  std::optional<Sft> out;
  for (const ShellCommand& command : follow_script(script).commands) {
    if (!starts_sft(command)) continue;
    if (says_megatron(command)) return Sft::None;
    const bool later =
        names_part(command, "verl.trainer.sft_trainer") || names_part(command, "verl/trainer/sft_trainer");
    const bool verl = names_part(command, "verl.trainer") || names_part(command, "verl/trainer") ||
                      overrides(command, "model.partial_pretrain") || overrides(command, "data.train_files");
    out = later ? Sft::Later : verl ? Sft::Early : out.value_or(Sft::None);
  }
  if (out) return *out;  // else what starts it was not followed
  const bool verl = mentions(script, "verl.trainer") || mentions(script, "model.partial_pretrain=");
  return verl && !mentions(script, "megatron") ? Sft::Early : Sft::None;
}

namespace {

void tell_program(const LaunchSource& script, LaunchJob& job) {
  for (const ShellCommand& command : follow_script(script).commands) {
    const std::string_view program = program_of(command);
    const bool supervised = program.find("sft_trainer") != std::string_view::npos;
    if (!(trains(command) || supervised) || program.starts_with("verl.") ||
        program.find("verl/trainer/") != std::string_view::npos)
      continue;
    const std::string name = program.empty() ? command.words.front().text : std::string(program);
    unused(job, "not_counted",
           fmt::format("{}:{}: `{}` is read as verl's own trainer: what it trains or keeps beside the {} is not "
                       "counted",
                       script.path, command.words.front().line, yaml::printable(name), supervised ? "model" : "actor"));
    return;
  }
}

}  // namespace

void unwrap(StatedKeys& keys) {
  const std::string inner = fmt::format(".{}", kActor);
  std::string outer;
  for (const auto& [key, value] : keys) {
    if (key.starts_with(kActor)) return;
    if (const std::size_t at = key.find(inner); at != std::string::npos && outer.empty()) outer = key.substr(0, at + 1);
  }
  if (outer.empty()) return;
  StatedKeys own;
  for (const auto& [key, value] : keys)
    if (key.starts_with(outer)) own.emplace(key.substr(outer.size()), value);
  own.merge(keys);  // what is beside the section, where it says nothing itself
  keys = std::move(own);
}

void take_lengths_of_rollout(StatedKeys& keys) {
  for (const auto& [own, data] : {std::pair{"actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"},
                                  std::pair{"actor_rollout_ref.rollout.response_length", "data.max_response_length"}})
    if (number_of(keys, own) > 0) keys[data] = keys[own];
}

std::string_view prompts_of_update(const StatedKeys& keys) {
  // Asynchronous trainers stream their prompts, whatever a step is said to have.
  const bool streams = std::any_of(
      keys.begin(), keys.end(), [](const auto& key) { return key.first.find("async_training.") != std::string::npos; });
  if (streams) return kMiniBatch;
  const int batch = number_of(keys, kStep), stated = number_of(keys, kMiniBatch);
  return batch > 0 && (stated > 0 ? stated : kDefaultMiniBatch) > batch ? kStep : kMiniBatch;
}

std::string beyond_a_step(const StatedKeys& keys) {
  if (prompts_of_update(keys) == kMiniBatch) return {};
  const int stated = number_of(keys, kMiniBatch);
  return fmt::format(
      "a step has fewer prompts than the {} of an update, and they are counted: later releases stop "
      "there, unless `use_dynamic_bsz` is on",
      stated > 0 ? stated : kDefaultMiniBatch);
}

std::string left_over(std::int64_t samples, std::int64_t step, std::int64_t ranks) {
  if (ranks < 2 || samples < ranks || samples % ranks == 0) return {};
  const std::string stops = step > 0 && step % ranks != 0
                                ? fmt::format("; it stops at a step of {}, which they do not divide", step)
                                : std::string("; later releases stop there");
  return fmt::format("verl gives {} of {} sequences to each of {} data ranks and leaves {} over: counted are {}{}",
                     samples / ranks, samples, ranks, samples % ranks, samples / ranks * ranks, stops);
}

std::string_view critic_by_default(const StatedKeys& keys) {
  if (keys.contains("algorithm.adv_estimator") || keys.contains("critic.enable")) return {};
  const auto critic = keys.lower_bound("critic.");
  return critic != keys.end() && critic->first.starts_with("critic.") ? std::string_view(critic->first)
                                                                      : std::string_view();
}

std::vector<std::pair<std::string_view, std::string_view>> models_beside(const StatedKeys& keys) {
  constexpr std::pair<std::string_view, std::string_view> kSwitched[] = {
      {"reward_model.enable", "the reward model beside the trained one is not counted"},
      {"reward.reward_model.enable", "the reward model beside the trained one is not counted"},
      {"distillation.enabled", "the teachers, on GPUs of their own or beside the trained model, are not counted"}};
  constexpr std::string_view kOwn[] = {kActor, "critic.", "reward_model.", "reward.", "data."};
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const auto& [key, value] : keys) {
    const std::string_view name = key;
    const std::string word = word_of(keys, key);
    const auto starts = [&](std::string_view section) { return name.starts_with(section); };
    const auto* const one =
        std::find_if(std::begin(kSwitched), std::end(kSwitched), [&](const auto& row) { return row.first == name; });
    if (one != std::end(kSwitched) && is_on(keys, key))
      out.emplace_back(name, one->second);
    else if (name.ends_with(".model.path") && std::none_of(std::begin(kOwn), std::end(kOwn), starts) && !word.empty() &&
             word != "null")
      out.emplace_back(name, "a model beside the actor, which verl itself has not, is not counted");
  }
  return out;
}

int packed(std::int64_t tokens, std::int64_t seq, std::int64_t step) {
  const std::int64_t whole = tokens / std::max<std::int64_t>(1, seq);
  std::int64_t out = std::clamp<std::int64_t>(step > 0 ? std::min(whole, step) : whole, 1, kMostGpus);
  while (out > 1 && step > 0 && step % out != 0) --out;
  return static_cast<int>(out);
}

void tell_programs(std::span<const LaunchSource> files, LaunchJob& job) {
  for (const LaunchSource& source : files)
    if (is_shell(source)) tell_program(source, job);
}

}  // namespace plan::verl
