// Megatron-LM's arguments as YAML: `MODEL_ARGS:` of its functional tests and of model collections, and Primus's
// experiments, whose model and defaults are in files that they name. Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/dialect.hpp"
#include "cli/launch/fork_flags.hpp"
#include "cli/launch/megatron_counted.hpp"
#include "cli/launch/megatron_flags.hpp"
#include "cli/launch/primus.hpp"
#include "cli/launch/unread.hpp"
#include "cli/launch/weighty_names.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

std::string flag_of(std::string key) {
  while (key.starts_with('-')) key.erase(key.begin());
  return with_dashes(key);
}

/// YAML 1.1, which Python reads, has four more words for a truth.
std::string as_boolean(const std::string& word) {
  if (word == "yes" || word == "on") return "true";
  return word == "no" || word == "off" ? "false" : word;
}

/// Keys as the words of a command: `true` is a switch, `false` and null are not there.
std::vector<ShellWord> words_of(const DialectKeys& keys) {
  std::vector<ShellWord> words;
  for (const auto& entry : keys) {
    const std::string& key = entry.first;
    const MegatronValue& value = entry.second;
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
void take_adapters(const DialectKeys& keys, MegatronArgs& args) {
  const auto stage = keys.find("stage"), lora = keys.find("lora.enabled"), rank = keys.find("lora.dim");
  if (stage != keys.end() && stage->second.values == std::vector<std::string>{"sft"})
    args.task = Task::FullFinetune, args.task_where = stage->second.where;
  if (lora == keys.end() || !is_true(lora->second)) return;
  args.task = Task::Lora, args.task_where = lora->second.where;
  args.lora_rank = number_of(keys, "lora.dim");
  if (rank != keys.end()) args.lora_where = rank->second.where;
}

Result<LaunchJob> job_of(const DialectKeys& keys, const std::string& file, const LaunchFacts& facts, bool fork) {
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

/// Keys that no parser of Megatron-LM's or of a fork has and that were left out.
void name_unread(const DialectKeys& keys, std::string_view whose, LaunchJob& job) {
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

bool is_of_other_models(std::string_view key) {
  for (const std::string_view part : {"encoder_", "decoder_seq", "decoder_num_layers", "bert_", "patch_dim", "img_"})
    if (key.starts_with(part)) return true;
  return false;
}

}  // namespace

bool is_megatron_yaml(const LaunchSource& source) {
  if (is_shell(source)) return false;
  if (mentions(source, "MODEL_ARGS:") && mentions(source, "--")) return true;
  return (mentions(source, "pre_trainer:") || mentions(source, "post_trainer:")) &&
         mentions(source, "framework: megatron\n") && mentions(source, "modules:");
}

Result<LaunchJob> yaml_arguments_job(const DialectKeys& keys, const std::string& file, const LaunchFacts& facts) {
  Result<LaunchJob> job = job_of(keys, file, facts, true);
  if (job) name_unread(keys, "these keys", *job);
  return job;
}

/// The file's sections are those of Megatron core's two configurations; everything else is outside them.
Result<LaunchJob> read_yaml_arguments(const LaunchSource& file, const LaunchFacts& facts) {
  const Result<DialectKeys> keys = keys_of_yaml(file);
  if (!keys) return fail(keys.error());
  DialectKeys flat;
  for (const auto& [key, value] : *keys) {
    std::string name = key;
    for (const std::string_view section : {"language_model.", "model_parallel."})
      if (name.starts_with(section)) name.erase(0, section.size());
    flat.emplace(name == "num_moe_experts" ? "num_experts" : name, value);
  }
  return yaml_arguments_job(flat, file.path, facts);
}

Result<LaunchJob> read_megatron_yaml(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  if (mentions(source, "MODEL_ARGS:")) {
    const Result<DialectKeys> keys = keys_of_yaml(source);
    if (!keys) return fail(keys.error());
    return job_of(keys_under(*keys, "MODEL_ARGS."), source.path, facts, true);
  }
  Result<primus::Experiment> experiment = primus::experiment_of(source, "megatron");
  if (!experiment) return fail(experiment.error());
  DialectKeys& all = experiment->keys;
  for (const auto& [name, value] : experiment->defaults)  // those of models that are no decoders are among them
    if (!is_of_other_models(name)) all.emplace(name, value);
  Result<LaunchJob> job = job_of(all, source.path, primus::with_gpu(facts, source), true);
  if (!job) return job;
  job->format = "primus";
  name_unread(experiment->overrides, "these keys of Primus's", *job);
  return job;
}

}  // namespace plan
