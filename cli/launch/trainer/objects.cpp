// Sections that the Trainer and TRL take as an object in one word of a command, those that they hand on to the model,
// and the file of arguments that a command of theirs names. transformers 5.12 training_args.py (_VALID_DICT_FIELDS),
// TRL 0.24 trainer/sft_config.py and scripts/utils.py (TrlParser: words of the command go before those of `--config`).
// Tested by tests/launch/trainer_tuning_test.cpp.
#include <fmt/core.h>

#include "cli/launch/trainer/sources.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/keep_errors.hpp"

namespace plan::hugging_face {

bool take_object(const Setting& setting, Settings& all) {
  if (!setting.value.starts_with('{') || setting.list) return false;
  LaunchSource word;
  word.path = setting.place.file, word.text = setting.value;
  const Result<Settings> keys = settings_of_json(word);
  if (!keys) {
    all.errors().push_back({"bad_object",
                            fmt::format("{}: `--{}` is no object of JSON's: {}", setting.where(), setting.key,
                                        keys.error().front().message),
                            {},
                            {}});
    return true;
  }
  const std::string section = setting.key == "deepspeed" ? "ds" : "args." + setting.key;
  for (const Setting& one : keys->all()) {
    Setting inside = one;
    inside.place = setting.place;
    set(all, fmt::format("{}.{}", section, one.key), inside);
  }
  return true;
}

namespace {

/// The word behind the program, `run_sft.py recipe.yaml`, or behind `--config`, that names a file of arguments.
const ShellWord* argument_file(const ShellCommand& command) {
  const std::vector<ShellWord>& words = command.words;
  bool behind = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string &word = words[i].text, &before = words[i - 1].text;
    const bool program =
        before.ends_with(".py") || (i > 1 && (words[i - 2].text == "-m" || words[i - 2].text == "--module"));
    behind |= program || before == "trl" || before.ends_with("/trl");
    const bool file = word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
    if (file && behind && (program || before == "--config")) return &words[i];
  }
  return nullptr;
}

}  // namespace

void take_argument_file(const LaunchSource& source, const ShellCommand& command, Settings& flags, Settings& all) {
  const ShellWord* word = argument_file(command);
  if (word == nullptr) return;
  const Setting named{
      .key = {}, .value = word->text, .items = {}, .list = false, .place = {source.path, word->line, 1, 1, {}}};
  const std::optional<LaunchSource> file = beside(source, word->text);
  if (!file) return set(all, std::string(kMissingArguments), named);
  const Kind kind = kind_of(*file);
  if (kind == Kind::Accelerate || kind == Kind::DeepSpeed) return;  // of the launcher, or of the program's own
  const bool json = file->text.find_first_not_of(" \t\r\n") == file->text.find('{');
  const Result<Settings> keys = json ? settings_of_json(*file) : settings_of_yaml(*file);
  if (!keep_errors(all.errors(), keys)) return;
  all.remember(*file);
  for (const Setting& setting : keys->all())  // the command's own words go before them
    if (!flags.states(setting.key)) flags.add(setting);
}

void take_model_section(Settings& all) {
  constexpr std::string_view kSection = "args.model_init_kwargs.";
  const std::vector<Setting> stated(all.all().begin(), all.all().end());
  for (const Setting& setting : stated)
    if (setting.key.starts_with(kSection)) set(all, "args." + setting.key.substr(kSection.size()), setting);
}

}  // namespace plan::hugging_face
