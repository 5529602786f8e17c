// SkyRL: hydra overrides of its trainers, with FSDP or Megatron policies. Defaults: 0.4,
// skyrl/train/config/ppo_base_config.yaml and config.py, which 0.2 and 0.3 share but for the GPUs of a node. Tested by
// tests/launch/skyrl_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "cli/launch/post_training/fsdp_dialects.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/text.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Every word of a command that trains a policy has keys below it.
constexpr std::string_view kPolicy = "trainer.policy.";

/// Whether the command trains a policy, and does not only sample from it.
bool trains(const ShellCommand& command) {
  return !trains_nothing(command) && std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    return trim(word.text, "+").starts_with(kPolicy);
  });
}

/// Programs other than SkyRL's own, which may train more than the policy.
void tell_programs(std::span<const LaunchSource> files, LaunchJob& job) {
  for (const LaunchSource& source : files) {
    if (!is_shell(source)) continue;
    for (const ShellCommand& command : follow_script(source).commands)
      for (const ShellWord& word : command.words) {
        if (!trains(command) || word.text.find("main_") == std::string::npos ||
            word.text.find('=') != std::string::npos || word.text.ends_with("main_base"))
          continue;
        return unused(job, "not_counted",
                      fmt::format("{}:{}: `{}` is read as SkyRL's own trainer: what it trains or keeps beside the "
                                  "policy is not counted",
                                  source.path, word.line, yaml::printable(word.text)));
      }
  }
}

/// The models that share the policy's GPUs.
void tell_models(const StatedKeys& keys, LaunchJob& job) {
  constexpr std::string_view kKl = "trainer.algorithm.use_kl_loss", kReward = "trainer.algorithm.use_kl_in_reward";
  const bool otherwise = word_of(keys, kKl).empty() && !is_on(keys, kReward);
  const auto tell = [&](std::string_view key, std::string_view what) {
    unused(job, "not_counted", fmt::format("{}: `{}`: {}", where_of(keys, key), yaml::printable(key), what));
  };
  if (is_on(keys, kKl) || is_on(keys, kReward))
    tell(is_on(keys, kKl) ? kKl : kReward, "the reference model beside the trained one is not counted");
  if (otherwise && !keys.empty()) {
    const auto policy = keys.lower_bound(kPolicy);
    unused(job, "not_counted",
           fmt::format("{}: SkyRL keeps a reference model where `{}` is not stated, which is not counted",
                       (policy == keys.end() ? keys.begin() : policy)->second.where, kKl));
  }
  if (word_of(keys, "trainer.algorithm.advantage_estimator") == "gae")
    tell("trainer.algorithm.advantage_estimator", "the critic beside the trained model is not counted");
}

// Prompt and answer together, which is what they sum to where nothing states it (config.py).
constexpr std::string_view kPrompt = "trainer.max_prompt_length", kWhole = "trainer.algorithm.max_seq_len";
constexpr std::string_view kAnswer = "generator.sampling_params.max_generate_length";

int answer_of(const StatedKeys& keys) { return number_of(keys, kAnswer) > 0 ? number_of(keys, kAnswer) : 1024; }

/// A whole that is not the sum of its parts.
void tell_whole(const StatedKeys& keys, LaunchJob& job) {
  const int whole = number_of(keys, kWhole), prompt = number_of(keys, kPrompt);
  const std::int64_t counted = std::int64_t{prompt > 0 ? prompt : 512} + answer_of(keys);
  if (whole > 0 && whole != counted)
    unused(job, "not_used",
           fmt::format("{}: `{}` is {}: sequences are counted as prompt and answer, {} tokens", where_of(keys, kWhole),
                       kWhole, whole, counted));
}

Result<StatedKeys> keys_of(std::span<const LaunchSource> files) {
  StatedKeys keys;
  for (const LaunchSource& source : files) {
    Result<StatedKeys> own = is_shell(source) ? keys_of_overrides(source, kPolicy) : keys_of_yaml(source);
    if (!own) return own;
    keys.insert(own->begin(), own->end());
  }
  interpolate(keys);
  // What a conversation of several turns is cut at is where its prompt ends.
  if (const auto input = keys.find("generator.max_input_length"); input != keys.end())
    keys["trainer.max_prompt_length"] = input->second;
  const int answer = answer_of(keys);  // of an agent's turns the whole is stated alone
  if (const int whole = number_of(keys, kWhole); !keys.contains(kPrompt) && whole > answer)
    keys[std::string(kPrompt)] = {{fmt::format("{}", whole - answer)}, where_of(keys, kWhole)};
  return keys;
}

}  // namespace

bool is_skyrl(const LaunchSource& source) {
  if (!is_shell(source))
    return mentions(source, "policy_mini_batch_size:") && mentions(source, "trainer:") &&
           mentions(source, "n_samples_per_prompt:");
  if (!mentions(source, kPolicy)) return false;
  const std::vector<ShellCommand>& commands = follow_script(source).commands;
  return std::any_of(commands.begin(), commands.end(), trains);
}

Result<LaunchJob> read_skyrl(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const Result<StatedKeys> keys = keys_of(files);
  if (!keys) return fail(keys.error());
  const bool megatron = word_of(*keys, "trainer.strategy") == "megatron";
  Result<LaunchJob> job = megatron ? dialect_job(skyrl_dialect(), *keys, facts) : read_skyrl_fsdp(*keys, facts);
  if (!job) return job;
  tell_programs(files, *job);
  tell_models(*keys, *job);
  tell_whole(*keys, *job);
  return job;
}

}  // namespace plan
