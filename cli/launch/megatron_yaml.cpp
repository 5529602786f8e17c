// Megatron-LM's arguments as YAML: `MODEL_ARGS:` of its functional tests and of model collections, and Primus's
// experiments, whose model and defaults stand in files that they name. Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/dialect.hpp"
#include "cli/launch/fork_flags.hpp"
#include "cli/launch/megatron_flags.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr int kDeepest = 8;

/// A key that says with `false` what a flag says by standing there.
constexpr std::pair<std::string_view, std::string_view> kOff[] = {
    {"add_bias_linear", "disable-bias-linear"},
    {"gradient_accumulation_fusion", "no-gradient-accumulation-fusion"},
    {"overlap_p2p_comm", "no-overlap-p2p-communication"},
    {"masked_softmax_fusion", "no-masked-softmax-fusion"},
    {"add_position_embedding", "no-position-embedding"},
};

std::string flag_of(std::string key) {
  while (key.starts_with('-')) key.erase(key.begin());
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

/// Keys as the words of a command: `true` is a switch, `false` and null are not there.
std::vector<ShellWord> words_of(const DialectKeys& keys) {
  std::vector<ShellWord> words;
  for (const auto& entry : keys) {
    const std::string& key = entry.first;
    const MegatronValue& value = entry.second;
    const std::size_t colon = value.where.rfind(':');
    const int line = colon == std::string::npos ? 1 : std::atoi(value.where.c_str() + colon + 1);
    const std::string word = value.values.size() == 1 ? lowered(value.values.front()) : "";
    const auto* off = std::find_if(std::begin(kOff), std::end(kOff), [&](const auto& row) { return row.first == key; });
    if (off != std::end(kOff)) {
      if (word == "false") words.push_back({"--" + std::string(off->second), line});
      continue;
    }
    if (word == "false" || word == "null" || word == "none" || word.empty() == (value.values.size() == 1)) continue;
    const std::string flag = key == "fp8" ? "fp8-format" : key == "fp4" ? "fp4-format" : flag_of(key);
    if (find_megatron_flag(flag) == nullptr && !key.starts_with("--")) continue;
    words.push_back({"--" + flag, line});
    const MegatronFlag* known = find_megatron_flag(flag);
    if (word == "true" && (known == nullptr || known->values == 0)) continue;
    if (known != nullptr && known->values == 0) continue;
    for (const std::string& item : value.values) words.push_back({item, line});
  }
  return words;
}

Result<LaunchJob> job_of(const DialectKeys& keys, const std::string& file, const LaunchFacts& facts, bool fork) {
  Errors errors;
  std::vector<Note> notes;
  MegatronArgs args = read_megatron_words(words_of(keys), file, errors, notes, fork);
  args.states_environment = !fork;
  settle_forks(args);
  Result<LaunchJob> job = megatron_job(args, facts);
  if (!job) errors.insert(errors.end(), job.error().begin(), job.error().end());
  if (!errors.empty()) return fail(std::move(errors));
  job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
  return job;
}

DialectKeys under(const DialectKeys& keys, std::string_view prefix) {
  DialectKeys out;
  for (const auto& [key, value] : keys)
    if (key.starts_with(prefix)) out[key.substr(prefix.size())] = value;
  return out;
}

Error missing(const std::string& where, const std::string& name) {
  return {"missing_file",
          fmt::format("{}: `{}` is not where Primus has it, and what it states is not known", where, name),
          {},
          {"read the file inside a checkout of Primus, or state the job with flags"}};
}

/// A file of Primus's with all that it extends; the file's own keys count.
// Files extend as deep as kDeepest.
// NOLINTNEXTLINE(misc-no-recursion)
Result<DialectKeys> extended(const LaunchSource& from, const std::string& folder, const std::string& name,
                             const std::string& where, int depth) {
  const std::optional<LaunchSource> file = depth < kDeepest ? beside(from, folder + "/" + name) : std::nullopt;
  if (!file) return fail(missing(where, folder + "/" + name));
  Result<DialectKeys> keys = keys_of_yaml(*file);
  if (!keys) return keys;
  for (const char* link : {"extends", "bases", "includes"}) {
    const auto named = keys->find(link);
    if (named == keys->end()) continue;
    const MegatronValue files = named->second;
    keys->erase(named);
    for (auto one = files.values.rbegin(); one != files.values.rend(); ++one) {
      Result<DialectKeys> below = extended(from, folder, *one, files.where, depth + 1);
      if (!below) return below;
      keys->insert(below->begin(), below->end());
    }
  }
  return keys;
}

bool is_of_other_models(std::string_view key) {
  for (const std::string_view part : {"encoder_", "decoder_seq", "decoder_num_layers", "bert_", "patch_dim", "img_"})
    if (key.starts_with(part)) return true;
  return false;
}

/// `${PRIMUS_MODEL:llama3.1_8B}.yaml` with the default that it states.
std::string with_defaults(std::string text) {
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at)) {
    const std::size_t colon = text.find(':', at), end = text.find('}', at);
    if (colon == std::string::npos || end == std::string::npos || colon > end) break;
    text = text.substr(0, at) + text.substr(colon + 1, end - colon - 1) + text.substr(end + 1);
  }
  return text;
}

}  // namespace

bool is_megatron_yaml(const LaunchSource& source) {
  const auto has = [&](std::string_view word) { return source.text.find(word) != std::string::npos; };
  if (is_shell(source)) return false;
  if (has("MODEL_ARGS:") && has("--")) return true;
  return has("pre_trainer:") && has("framework: megatron\n") && has("modules:");
}

Result<LaunchJob> read_megatron_yaml(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  const Result<DialectKeys> keys = keys_of_yaml(source);
  if (!keys) return fail(keys.error());
  if (source.text.find("MODEL_ARGS:") != std::string::npos)
    return job_of(under(*keys, "MODEL_ARGS."), source.path, facts, true);
  constexpr std::string_view kTrainer = "modules.pre_trainer.";
  const DialectKeys own = under(*keys, kTrainer);
  DialectKeys all = under(own, "overrides.");
  for (const auto& [key, folder] :
       {std::pair{"model", "primus/configs/models/megatron"}, std::pair{"config", "primus/configs/modules/megatron"}}) {
    const auto named = own.find(key);
    if (named == own.end() || named->second.values.empty()) continue;
    const Result<DialectKeys> below =
        extended(source, folder, with_defaults(named->second.values.front()), named->second.where, 0);
    if (!below) return fail(below.error());
    for (const auto& [name, value] : *below)  // Primus's defaults hold those of models that are no decoders, too
      if (key != std::string_view("config") || !is_of_other_models(name)) all.emplace(name, value);
  }
  for (auto& [key, value] : all)
    for (std::string& word : value.values) word = with_defaults(word);
  LaunchFacts known = facts;
  for (const char* kind : {"mi300x", "mi325x", "mi355x"})
    if (lowered(source.path).find(kind) != std::string::npos && known.gpu.empty()) known.gpu = kind;
  Result<LaunchJob> job = job_of(all, source.path, known, true);
  if (!job) return job;
  job->format = "primus";
  std::string open;
  for (const auto& [key, value] : under(own, "overrides.")) {
    const std::string flag = flag_of(key), word = value.values.size() == 1 ? lowered(value.values.front()) : "";
    const bool off = word == "false" || word == "null" || word == "0";
    const bool known_off =
        std::any_of(std::begin(kOff), std::end(kOff), [&, k = key](const auto& row) { return row.first == k; });
    if (find_megatron_flag(flag) == nullptr && !off && !known_off && key != "fp8" && key != "fp4" &&
        !sounds_harmless(flag) && !key.starts_with("use_turbo") && !key.starts_with("enable_primus") &&
        key.find("sink_level") == std::string::npos && key.find("saving") == std::string::npos)
      open += fmt::format("{}`{}`", open.empty() ? "" : ", ", key);
  }
  if (!open.empty())
    unused(*job, "not_used", fmt::format("{}: what these keys of Primus's change is not known: {}", source.path, open));
  return job;
}

}  // namespace plan
