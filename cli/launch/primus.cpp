// Primus's experiments: a YAML file under `modules.pre_trainer` that names a model's file and a module's defaults.
// Those of its torchtitan back end are read here, those of Megatron-LM's in megatron_yaml.cpp. Keys: Primus main,
// primus/configs. Tested by tests/launch/native_test.cpp.
#include "cli/launch/primus.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/torchtitan.hpp"
#include "cli/launch/torchtitan_keys.hpp"
#include "presets/suggest.hpp"

namespace plan {

DialectKeys keys_under(const DialectKeys& keys, std::string_view prefix) {
  DialectKeys out;
  for (const auto& [key, value] : keys)
    if (key.starts_with(prefix)) out[key.substr(prefix.size())] = value;
  return out;
}

namespace primus {
namespace {

constexpr int kDeepest = 8;
constexpr std::string_view kTrainer = "modules.pre_trainer.";

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

Result<Experiment> experiment_of(const LaunchSource& source, const DialectKeys& keys, std::string_view backend) {
  const DialectKeys own = keys_under(keys, kTrainer);
  Experiment out;
  out.overrides = out.keys = keys_under(own, "overrides.");
  for (const auto& [key, kind] : {std::pair{"model", "models"}, std::pair{"config", "modules"}}) {
    const auto named = own.find(key);
    if (named == own.end() || named->second.values.empty()) continue;
    const std::string folder = fmt::format("primus/configs/{}/{}", kind, backend);
    const Result<DialectKeys> below =
        extended(source, folder, with_defaults(named->second.values.front()), named->second.where, 0);
    if (!below) return fail(below.error());
    (key == std::string_view("model") ? out.keys : out.defaults).insert(below->begin(), below->end());
  }
  for (DialectKeys* all : {&out.overrides, &out.keys, &out.defaults})
    for (auto& [key, value] : *all)
      for (std::string& word : value.values) word = with_defaults(word);
  return out;
}

LaunchFacts with_gpu(LaunchFacts facts, const LaunchSource& source) {
  for (const char* kind : {"mi300x", "mi325x", "mi355x"})
    if (lowered(source.path).find(kind) != std::string::npos && facts.gpu.empty()) facts.gpu = kind;
  return facts;
}

}  // namespace primus

bool is_primus_torchtitan(const LaunchSource& source) {
  const auto has = [&](std::string_view word) { return source.text.find(word) != std::string::npos; };
  return !is_shell(source) && has("pre_trainer:") && has("framework: torchtitan") && has("modules:");
}

Result<LaunchJob> read_primus_torchtitan(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  const Result<DialectKeys> keys = keys_of_yaml(source);
  if (!keys) return fail(keys.error());
  Result<primus::Experiment> experiment = primus::experiment_of(source, *keys, "torchtitan");
  if (!experiment) return fail(experiment.error());
  experiment->keys.insert(experiment->defaults.begin(), experiment->defaults.end());
  Settings settings = settings_of_keys(experiment->keys);
  Result<LaunchJob> job = torchtitan::job_of(settings, "primus-torchtitan", primus::with_gpu(facts, source));
  if (!job) return job;
  std::string open;
  for (const auto& [key, value] : experiment->overrides) {
    const std::string word = value.values.size() == 1 ? lowered(value.values.front()) : "";
    const bool off = word == "false" || word == "null" || word == "0" || word.empty();
    const bool known =
        std::find(std::begin(torchtitan::kKeys), std::end(torchtitan::kKeys), key) != std::end(torchtitan::kKeys);
    if (!known && !off && key.find("sink_level") == std::string::npos)
      open += fmt::format("{}`{}`", open.empty() ? "" : ", ", key);
  }
  if (!open.empty())
    unused(*job, "not_used", fmt::format("{}: what these keys of Primus's change is not known: {}", source.path, open));
  return job;
}

}  // namespace plan
