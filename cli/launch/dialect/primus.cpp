// Primus's experiments: a YAML file under `modules.pre_trainer` or `modules.post_trainer` that names a model's file and
// a module's defaults. Its back ends are torchtitan, MaxText, Megatron-Bridge and Megatron-LM, whose
// `MODEL_ARGS:` are read here, too. Keys: Primus main, primus/configs. Tested by tests/launch/native_test.cpp.
#include "cli/launch/dialect/primus.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cli/launch/dialect/recipes.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/maxtext/maxtext.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/launch/torchtitan/keys.hpp"
#include "cli/launch/torchtitan/torchtitan.hpp"
#include "presets/suggest.hpp"

namespace plan {

namespace primus {
namespace {

constexpr int kDeepestExtends = 8;
constexpr std::string_view kTrainers[] = {"modules.pre_trainer.", "modules.post_trainer."};

Error missing(const std::string& where, const std::string& name) {
  return {"missing_file",
          fmt::format("{}: `{}` is not where Primus has it, and what it states is not known", where, name),
          {},
          {"read the file inside a checkout of Primus, or state the job with flags"}};
}

/// A file of Primus's with all that it extends; the file's own keys count.
// Files extend as deep as kDeepestExtends.
// NOLINTNEXTLINE(misc-no-recursion)
Result<StatedKeys> extended(const LaunchSource& from, const std::string& folder, const std::string& name,
                            const std::string& where, int depth) {
  const std::optional<LaunchSource> file = depth < kDeepestExtends ? beside(from, folder + "/" + name) : std::nullopt;
  if (!file) return fail(missing(where, folder + "/" + name));
  Result<StatedKeys> keys = keys_of_yaml(*file);
  if (!keys) return keys;
  for (const char* link : {"extends", "bases", "includes"}) {
    const auto named = keys->find(link);
    if (named == keys->end()) continue;
    const StatedValue files = named->second;
    keys->erase(named);
    for (auto one = files.values.rbegin(); one != files.values.rend(); ++one) {
      Result<StatedKeys> below = extended(from, folder, *one, files.where, depth + 1);
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

Result<Experiment> experiment_of(const LaunchSource& source, std::string_view backend) {
  const Result<StatedKeys> keys = keys_of_yaml(source);
  if (!keys) return fail(keys.error());
  StatedKeys own;
  for (const std::string_view trainer : kTrainers)
    if (own.empty()) own = keys_under(*keys, trainer);
  Experiment out;
  out.overrides = out.keys = keys_under(own, "overrides.");
  for (const auto& [key, kind] : {std::pair{"model", "models"}, std::pair{"config", "modules"}}) {
    const auto named = own.find(key);
    if (named == own.end() || named->second.values.empty()) continue;
    const std::string folder = fmt::format("primus/configs/{}/{}", kind, backend);
    const Result<StatedKeys> below =
        extended(source, folder, with_defaults(named->second.values.front()), named->second.where, 0);
    if (!below) return fail(below.error());
    (key == std::string_view("model") ? out.keys : out.defaults).insert(below->begin(), below->end());
  }
  for (StatedKeys* all : {&out.overrides, &out.keys, &out.defaults})
    for (auto& [key, value] : *all)
      for (std::string& word : value.values) word = with_defaults(word);
  return out;
}

LaunchFacts with_gpu(LaunchFacts facts, const LaunchSource& source) {
  for (const char* kind : {"mi300x", "mi325x", "mi355x"})
    if (lowered(source.path).find(kind) != std::string::npos && facts.gpu.empty()) facts.gpu = kind;
  return facts;
}

namespace {

/// An experiment of one back end: `framework:` says which, and a longer name is another's.
bool is_of(const LaunchSource& source, std::string_view backend) {
  const std::string& text = source.text;
  if (is_shell(source) || text.find("modules:") == std::string::npos ||
      (text.find("pre_trainer:") == std::string::npos && text.find("post_trainer:") == std::string::npos))
    return false;
  const std::string key = fmt::format("framework: {}", backend);
  const std::size_t at = text.find(key);
  return at != std::string::npos &&
         (at + key.size() == text.size() || std::isspace(static_cast<unsigned char>(text[at + key.size()])) != 0);
}

/// What it states, over the back end's own defaults.
Settings settings_of(Experiment& experiment) {
  experiment.keys.insert(experiment.defaults.begin(), experiment.defaults.end());
  return settings_of_keys(experiment.keys);
}

/// The keys that the experiment itself states, and of which nothing was used.
void name_unread_overrides(const Experiment& experiment, LaunchJob& job, bool (*known)(std::string_view)) {
  Unread unread;
  for (const auto& [key, value] : experiment.overrides) {
    const std::string word = value.values.size() == 1 ? lowered(value.values.front()) : "";
    const bool off = word == "false" || word == "null" || word == "none" || word == "0" || word.empty();
    if (!known(key) && !off && key.find("sink_level") == std::string::npos) unread.add(key, value.where);
  }
  unread.tell(job.unused, "these keys of Primus's");
}

/// Megatron-Bridge's key for what Primus writes without its section.
std::string bridge_key(std::string_view key) {
  if (key == "precision_config") return "mixed_precision";
  if (key == "seq_length") return "model.seq_length";
  if (key == "peft") return "peft";
  for (const DialectKey& row : bridge_dialect().keys)
    if (row.key.size() > key.size() && row.key.ends_with(key) && row.key[row.key.size() - key.size() - 1] == '.')
      return row.key;
  return "";
}

bool is_bridge_key(std::string_view key) {
  constexpr std::string_view kOthers[] = {"iters", "interval", "lr",        "wandb",      "tensorboard", "path",
                                          "dir",   "log",      "sink",      "checkpoint", "seed",        "profil",
                                          "name",  "data",     "tokenizer", "save",       "eval"};
  return !bridge_key(key).empty() || std::any_of(std::begin(kOthers), std::end(kOthers), [&](std::string_view part) {
    return key.find(part) != std::string_view::npos;
  });
}

}  // namespace
}  // namespace primus

bool is_primus_torchtitan(const LaunchSource& source) { return primus::is_of(source, "torchtitan"); }
bool is_primus_maxtext(const LaunchSource& source) { return primus::is_of(source, "maxtext"); }
bool is_primus_bridge(const LaunchSource& source) { return primus::is_of(source, "megatron_bridge"); }

Result<LaunchJob> read_primus_maxtext(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  Result<primus::Experiment> experiment = primus::experiment_of(source, "maxtext");
  if (!experiment) return fail(experiment.error());
  Settings settings = primus::settings_of(*experiment);
  return maxtext::job_of(settings, "primus-maxtext", primus::with_gpu(facts, source));
}

/// A recipe of Megatron-Bridge's, which the model's file names, and what the experiment lays over it.
Result<LaunchJob> read_primus_bridge(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  Result<primus::Experiment> experiment = primus::experiment_of(source, "megatron_bridge");
  if (!experiment) return fail(experiment.error());
  const auto flavor = experiment->keys.find("flavor");
  recipes::Named recipe{"a recipe that no file names", source.path};
  if (flavor != experiment->keys.end() && !flavor->second.values.empty())
    recipe = {flavor->second.values.front(), flavor->second.where};
  StatedKeys bridge;
  for (const auto& [key, value] : experiment->keys) {
    const std::string to = primus::bridge_key(key);
    const std::string word = value.values.size() == 1 ? lowered(value.values.front()) : "";
    if (!to.empty() && word != "null" && (to != "peft" || word != "none")) bridge.emplace(to, value);
  }
  Result<LaunchJob> job = recipes::job_of(bridge_dialect(), bridge, recipe, primus::with_gpu(facts, source));
  if (!job) return job;
  job->format = "primus-bridge";
  primus::name_unread_overrides(*experiment, *job, primus::is_bridge_key);
  return job;
}

Result<LaunchJob> read_primus_torchtitan(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  Result<primus::Experiment> experiment = primus::experiment_of(source, "torchtitan");
  if (!experiment) return fail(experiment.error());
  Settings settings = primus::settings_of(*experiment);
  Result<LaunchJob> job = torchtitan::job_of(settings, "primus-torchtitan", primus::with_gpu(facts, source));
  if (!job) return job;
  primus::name_unread_overrides(*experiment, *job, [](std::string_view key) {
    return std::find(std::begin(torchtitan::kKeys), std::end(torchtitan::kKeys), key) != std::end(torchtitan::kKeys);
  });
  return job;
}

namespace {

bool is_of_other_models(std::string_view key) {
  for (const std::string_view part : {"encoder_", "decoder_seq", "decoder_num_layers", "bert_", "patch_dim", "img_"})
    if (key.starts_with(part)) return true;
  return false;
}

/// The key of a vocabulary that is BERT's and T5's: GPT's of Megatron-LM comes with merges, or is another tokenizer's.
/// `MODEL_ARGS:` names no program, whose default the tokenizer is (pretrain_bert.py, pretrain_t5.py). Empty: none.
std::string_view vocabulary_of_bert(const StatedKeys& keys) {
  constexpr std::string_view kVocabulary = "--vocab-file", kTokenizer = "--tokenizer-type";
  const std::string tokenizer = word_of(keys, kTokenizer);
  if (tokenizer.starts_with("BertWordPiece")) return kTokenizer;
  const bool others = !tokenizer.empty() || keys.contains("--merge-file") || keys.contains("--tokenizer-model");
  return !others && keys.contains(kVocabulary) ? kVocabulary : std::string_view();
}

}  // namespace

bool is_megatron_yaml(const LaunchSource& source) {
  if (is_shell(source)) return false;
  if (mentions(source, "MODEL_ARGS:") && mentions(source, "--")) return true;
  return (mentions(source, "pre_trainer:") || mentions(source, "post_trainer:")) &&
         mentions(source, "framework: megatron\n") && mentions(source, "modules:");
}

Result<LaunchJob> read_megatron_yaml(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  if (mentions(source, "MODEL_ARGS:")) {
    const Result<StatedKeys> keys = keys_of_yaml(source);
    if (!keys) return fail(keys.error());
    const StatedKeys flags = keys_under(*keys, "MODEL_ARGS.");
    if (const std::string_view key = vocabulary_of_bert(flags); !key.empty())
      return fail(Error{"not_a_decoder",
                        fmt::format("{}: `{}` is of BERT's or T5's vocabulary, and no decoder's: plan does not model "
                                    "those",
                                    where_of(flags, key), key),
                        {},
                        {"for GPT state its `--tokenizer-type`, or `--merge-file` beside the vocabulary"}});
    return job_of_keys(flags, source.path, facts, true);
  }
  Result<primus::Experiment> experiment = primus::experiment_of(source, "megatron");
  if (!experiment) return fail(experiment.error());
  StatedKeys& all = experiment->keys;
  for (const auto& [name, value] : experiment->defaults)  // those of models that are no decoders are among them
    if (!is_of_other_models(name)) all.emplace(name, value);
  Result<LaunchJob> job = job_of_keys(all, source.path, primus::with_gpu(facts, source), true);
  if (!job) return job;
  job->format = "primus";
  name_unread_keys(experiment->overrides, "these keys of Primus's", *job);
  return job;
}

}  // namespace plan
