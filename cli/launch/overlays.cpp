// What commands lay over the configuration files that they name. Ways of each program: torchtitan 0.2 config/manager.py
// (tyro), LLaMA-Factory 0.9 hparams/parser.py (OmegaConf), torchtune 0.6 config/_parse.py, Composer's launcher, TRL's
// TrlParser (scripts/utils.py), accelerate 1.15 commands/launch.py, NeMo Automodel config/_arg_parser.py, litgpt 0.5
// (jsonargparse), OLMo 0.6 scripts/train.py (clean_opt). Tested by tests/launch/overlays_test.cpp.
#include "cli/launch/overlays.hpp"
#include "cli/launch/job/keys.hpp"

#include <algorithm>
#include <cctype>

#include "cli/launch/formats.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// `--section.key value`, `key=value`, `--key value` behind the program, or flags of accelerate's before it.
/// Where the program is not known: what the file itself states under the whole of that key.
enum class Way { None, Flags, Pairs, Arguments, Launcher, Stated };

/// How the program of a command takes them, by its name or by whose file it is.
Way way_of(const ShellCommand& command, const LaunchSource& file) {
  using hugging_face::Kind;
  bool accelerate = false, factory = false, recipe = false;
  for (const ShellWord& word : command.words) {
    const std::string base(base_name(word.text));
    if (word.text.starts_with("--job.config")) return Way::Flags;
    if (base == "llamafactory-cli" || base == "lmf" || base == "tune" || base == "composer") return Way::Pairs;
    accelerate |= base == "accelerate";
    factory |= base == "train.py" || base == "launcher.py" || base.starts_with("llamafactory.");
    recipe |= word.text.find("recipes/") != std::string::npos && base.ends_with(".py");
  }
  if (is_automodel(file)) return Way::Flags;
  if (is_litgpt(file) || is_olmo(file)) return Way::Arguments;
  const Kind kind = hugging_face::kind_of(file);
  if (kind == Kind::Accelerate) return accelerate ? Way::Launcher : Way::None;
  if (kind == Kind::Torchtune) return recipe ? Way::Pairs : Way::None;
  if (kind != Kind::Trainer) return Way::Stated;
  if (!mentions(file, "finetuning_type:") && !mentions(file, "cutoff_len:")) return Way::Arguments;
  return factory ? Way::Pairs : Way::None;
}

/// Flags of accelerate's launcher that say something of the job, under the names of its file; empty: none.
std::string launcher_key(const std::string& key) {
  constexpr std::string_view kTop[] = {"num_processes", "num_machines", "mixed_precision"};
  constexpr std::string_view kDeepSpeed[] = {"zero_stage", "offload_optimizer_device", "offload_param_device",
                                             "gradient_accumulation_steps"};
  if (std::find(std::begin(kTop), std::end(kTop), key) != std::end(kTop)) return key;
  if (std::find(std::begin(kDeepSpeed), std::end(kDeepSpeed), key) != std::end(kDeepSpeed))
    return "deepspeed_config." + key;
  for (const std::string_view section : {"fsdp", "parallelism_config", "dynamo"})
    if (key.starts_with(std::string(section) + "_"))
      return std::string(section) + (section.ends_with("config") ? "." : "_config.") + key;
  return {};
}

bool is_key(std::string_view text) {
  return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
         });
}

/// A value that nobody knows before the script runs is none.
bool is_open(std::string_view value) { return value.find('$') != std::string_view::npos; }

/// `--compile.no-enable` switches off what `--compile.enable` switches on.
Overlay switched(std::string key, Place place) {
  const std::size_t last = key.rfind('.') + 1;
  const bool off = key.compare(last, 3, "no_") == 0;
  if (off) key.erase(last, 3);
  return {std::move(key), off ? "false" : "true", std::move(place)};
}

/// LLaMA-Factory asks the environment which back end reads its file: extras/misc.py, is_env_enabled.
bool asks_for_mca(const ShellCommand& command) {
  const auto found = command.environment.find("USE_MCA");
  if (found == command.environment.end()) return false;
  const std::string word = lowered(found->second);
  return word == "1" || word == "true" || word == "y";
}

/// A flag with its value, which may be a word of its own, or a switch.
struct Flag {
  std::string key{};
  std::optional<std::string> value{};
  std::size_t words = 1;
};

Flag flag_at(const std::vector<ShellWord>& words, std::size_t i) {
  const std::string_view text = std::string_view(words[i].text).substr(2);
  const std::size_t equals = text.find('=');
  Flag flag{with_underscores(text.substr(0, equals)), {}, 1};
  if (equals != std::string_view::npos)
    flag.value = text.substr(equals + 1);
  else if (i + 1 < words.size() && !words[i + 1].text.starts_with("--"))
    flag.value = words[i + 1].text, flag.words = 2;
  return flag;
}

/// The file's own key for a flag that the program or its launcher lays over it; empty: the flag says nothing of it.
std::string key_of(const Flag& flag, Way way) {
  const bool dotted = flag.key.find('.') != std::string::npos;
  if (!is_key(flag.key)) return {};
  if (way == Way::Flags) return dotted && !flag.key.starts_with("job.config") ? flag.key : "";
  if (way == Way::Launcher) return launcher_key(flag.key);
  return flag.key == "config" ? "" : flag.key;
}

void take_flags(const ShellCommand& command, const std::string& script, Way way, LaunchSource& file,
                std::set<std::size_t>& taken) {
  const std::vector<ShellWord>& words = command.words;
  const auto litgpt =
      std::find_if(words.begin(), words.end(), [](const ShellWord& word) { return base_name(word.text) == "litgpt"; });
  const std::size_t program =
      behind_program(words).value_or(static_cast<std::size_t>(std::distance(words.begin(), litgpt)));
  const std::size_t from = way == Way::Arguments ? program : 0, to = way == Way::Launcher ? program : words.size();
  for (std::size_t i = from; i < to; ++i) {
    if (!words[i].text.starts_with("--")) continue;
    const Flag flag = flag_at(words, i);
    const std::string key = key_of(flag, way);
    // How many processes there are is not the file's to say where its launcher is told, whatever that is.
    const bool open = flag.value && is_open(*flag.value) && key != "num_processes";
    if (key.empty() || open) continue;
    const Place place{.file = script, .line = words[i].line, .column = 1, .length = 1, .text = {}};
    file.overlays.push_back(flag.value ? Overlay{key, *flag.value, place} : switched(key, place));
    for (std::size_t word = 0; word < flag.words; ++word) taken.insert(i + word);
  }
}

void take_pairs(const ShellCommand& command, const std::string& script, LaunchSource& file,
                std::set<std::size_t>& taken) {
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    const std::size_t equals = word.text.find('=');
    const std::string key = with_underscores(word.text.substr(0, equals));
    if (word.text.starts_with("--") || equals == std::string::npos || !is_key(key)) continue;
    if (is_open(std::string_view(word.text).substr(equals))) continue;
    file.overlays.push_back({key, word.text.substr(equals + 1), {script, word.line, 1, 1, {}}});
    taken.insert(i);
  }
}

/// `section.key=value` over a file that states that very key, as Hydra, OmegaConf and their like have it.
void take_stated(const ShellCommand& command, const std::string& script, LaunchSource& file,
                 std::set<std::size_t>& taken) {
  const Result<StatedKeys> keys = keys_of_yaml(file);
  if (!keys) return;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    const std::size_t equals = word.text.find('='), first = word.text.find_first_not_of("+-");
    if (equals == std::string::npos || first > equals) continue;
    const std::string key = word.text.substr(first, equals - first);
    const auto stated = key.find('.') == std::string::npos ? keys->end() : keys->find(key);
    if (stated == keys->end() || is_open(std::string_view(word.text).substr(equals))) continue;
    // `batch=[1,2]` over one number starts several trainings, or none.
    const std::vector<std::string>& held = stated->second.values;
    if (held.size() == 1 && to_integer(held.front()) && listed(word.text.substr(equals + 1)).size() > 1) continue;
    file.overlays.push_back({key, word.text.substr(equals + 1), {script, word.line, 1, 1, {}}});
    taken.insert(i);
  }
}

}  // namespace

std::set<std::size_t> lay_over(const ShellCommand& command, const std::string& script, LaunchSource& file) {
  std::set<std::size_t> taken;
  const Way way = way_of(command, file);
  if (way == Way::Pairs && asks_for_mca(command))
    file.overlays.push_back({"use_mca", "true", {script, command.words.front().line, 1, 1, {}}});
  if (way == Way::Pairs)
    take_pairs(command, script, file, taken);
  else if (way == Way::Stated)
    take_stated(command, script, file, taken);
  else if (way != Way::None)
    take_flags(command, script, way, file, taken);
  return taken;
}

}  // namespace plan
