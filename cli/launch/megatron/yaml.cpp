// Megatron-LM's arguments as keys of YAML: `MODEL_ARGS:` of its functional tests and of model collections, the
// experiments of tools around it, and its own `--yaml-cfg`. Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/megatron/counted.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/fork_flags.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

std::string flag_of(std::string key) {
  while (key.starts_with('-')) key.erase(key.begin());
  return with_dashes(key);
}

/// YAML 1.1, which Python reads, has four more words for a truth; a number or a letter stays what it is.
std::string as_boolean(const std::string& word) {
  const std::optional<bool> truth = word.size() > 1 ? truth_of(word) : std::nullopt;
  return !truth ? word : *truth ? "true" : "false";
}

/// Keys as the words of a command: `true` is a switch, `false` and null are not there.
std::vector<ShellWord> words_of(const StatedKeys& keys) {
  std::vector<ShellWord> words;
  for (const auto& entry : keys) {
    const std::string& key = entry.first;
    const StatedValue& value = entry.second;
    const std::size_t colon = value.where.rfind(':');
    const int line = colon == std::string::npos ? 1 : std::atoi(value.where.c_str() + colon + 1);
    const std::string word = value.values.size() == 1 ? as_boolean(lowered(value.values.front())) : "";
    if (const std::string_view off = flag_of_false(key); !off.empty() && word == "false") {
      words.push_back({"--" + std::string(off), line});
      continue;
    }
    if (word == "false" || word == "null" || word == "none" || word.empty() == (value.values.size() == 1)) continue;
    const std::string flag = key == "fp8" ? "fp8-format" : key == "fp4" ? "fp4-format" : flag_of(key);
    const ForkFlag* own = find_fork_flag(flag);
    if (find_megatron_flag(flag) == nullptr && own == nullptr && !key.starts_with("--")) continue;
    words.push_back({"--" + flag, line});
    const MegatronFlag* known = find_megatron_flag(flag);
    const int wanted = known != nullptr ? known->values : own != nullptr ? own->values : -1;
    if ((wanted == 0 && (word == "true" || word == "1" || value.values.empty())) ||
        (word == "true" && known == nullptr))
      continue;
    for (const std::string& item : value.values)
      // A shell reads the words of `MODEL_ARGS` once more, so that `"'([0]*1+[1]*60)'"` keeps its brackets.
      words.push_back({key.starts_with("--") ? without_quotes(item) : item, line});
  }
  return words;
}

/// Primus's fine-tuning: `stage: sft`, and adapters in a section of their own (its sft_trainer.yaml).
void take_adapters(const StatedKeys& keys, MegatronArgs& args) {
  const auto stage = keys.find("stage"), lora = keys.find("lora.enabled"), rank = keys.find("lora.dim");
  if (stage != keys.end() && stage->second.values == std::vector<std::string>{"sft"})
    args.task = Task::FullFinetune, args.task_where = stage->second.where;
  if (lora == keys.end() || !is_true(lora->second)) return;
  args.task = Task::Lora, args.task_where = lora->second.where;
  args.lora_rank = number_of(keys, "lora.dim");
  if (rank != keys.end()) args.lora_where = rank->second.where;
}

}  // namespace

Result<LaunchJob> job_of_keys(const StatedKeys& keys, const std::string& file, const LaunchFacts& facts, bool fork) {
  Errors errors;
  std::vector<Note> notes;
  MegatronArgs args = read_megatron_words(words_of(keys), file, errors, notes, fork);
  args.states_environment = !fork;
  take_adapters(keys, args);
  settle_forks(args);
  Result<LaunchJob> job = megatron_job(args, facts);
  keep_errors(errors, job);
  if (!errors.empty()) return fail(std::move(errors));
  job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
  return job;
}

void name_unread_keys(const StatedKeys& keys, std::string_view whose, LaunchJob& job) {
  constexpr std::string_view kRead[] = {"fp8", "fp4", "stage"};
  Unread unread;
  for (const auto& [key, value] : keys) {
    const std::string flag = flag_of(key), word = value.values.size() == 1 ? lowered(value.values.front()) : "";
    const bool off = value.values.size() == 1 && (switched_off(word) || word == "none");
    const bool read = find_megatron_flag(flag) != nullptr || !flag_of_false(key).empty() || key.starts_with("lora.") ||
                      std::find(std::begin(kRead), std::end(kRead), key) != std::end(kRead);
    const bool aside = key.starts_with("enable_primus") || key.find("sink_level") != std::string::npos ||
                       key.find("saving") != std::string::npos || sounds_harmless(flag);
    if (off || read || aside || key.starts_with("--") || find_fork_flag(flag) != nullptr) continue;
    unread.add(key, value.where);
  }
  unread.tell(job.unused, whose);
}

Result<LaunchJob> yaml_arguments_job(const StatedKeys& keys, const std::string& file, const LaunchFacts& facts) {
  Result<LaunchJob> job = job_of_keys(keys, file, facts, true);
  if (job) name_unread_keys(keys, "these keys", *job);
  return job;
}

/// The file's sections are those of Megatron core's two configurations; everything else is outside them.
Result<LaunchJob> read_yaml_arguments(const LaunchSource& file, const LaunchFacts& facts) {
  const Result<StatedKeys> keys = keys_of_yaml(file);
  if (!keys) return fail(keys.error());
  StatedKeys flat;
  for (const auto& [key, value] : *keys) {
    std::string name = key;
    for (const std::string_view section : {"language_model.", "model_parallel."})
      if (name.starts_with(section)) name.erase(0, section.size());
    flat.emplace(name == "num_moe_experts" ? "num_experts" : name, value);
  }
  return yaml_arguments_job(flat, file.path, facts);
}

}  // namespace plan
