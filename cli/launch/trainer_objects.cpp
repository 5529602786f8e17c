// Sections that the Trainer and TRL take as an object in one word of a command, and those that they hand on to the
// model. transformers 5.12 training_args.py (_VALID_DICT_FIELDS), TRL 0.24 trainer/sft_config.py. Tested by
// tests/launch/trainer_tuning_test.cpp.
#include <fmt/core.h>

#include "cli/launch/settings.hpp"
#include "cli/launch/trainer_sources.hpp"

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

void take_model_section(Settings& all) {
  constexpr std::string_view kSection = "args.model_init_kwargs.";
  const std::vector<Setting> stated(all.all().begin(), all.all().end());
  for (const Setting& setting : stated)
    if (setting.key.starts_with(kSection)) set(all, "args." + setting.key.substr(kSection.size()), setting);
}

}  // namespace plan::hugging_face
