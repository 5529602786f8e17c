// Files of flags that ms-swift's commands name: swift/cli/main.py, 3.4 to 4.6. Tested by
// tests/launch/swift_files_test.cpp.
#include <fmt/core.h>

#include <map>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/trainer/hugging_face.hpp"
#include "cli/launch/trainer/sources.hpp"
#include "formulas/keep_errors.hpp"

namespace plan::hugging_face {
namespace {

/// The keys of the file, which has to be there; nothing where a mistake was noted.
std::optional<Settings> keys_of(const LaunchSource& source, const std::string& name, const std::string& where,
                                Settings& all) {
  const std::optional<LaunchSource> file = beside(source, name);
  if (!file) return all.errors().push_back(missing_arguments(where, name)), std::nullopt;
  Result<Settings> keys = name.ends_with(".json") ? settings_of_json(*file) : settings_of_yaml(*file);
  if (!keep_errors(all.errors(), keys)) return std::nullopt;
  all.remember(*file);
  return std::move(*keys);
}

}  // namespace

void take_swift_file(const LaunchSource& source, const ShellCommand& command, Settings& flags, Settings& all) {
  for (const ShellWord& word : command.words) {
    if (word.text.starts_with("--")) return;
    if (!word.text.ends_with(".yaml") && !word.text.ends_with(".yml") && !word.text.ends_with(".json")) continue;
    const std::optional<Settings> keys = keys_of(source, word.text, fmt::format("{}:{}", source.path, word.line), all);
    if (!keys) return;
    for (const Setting& setting : keys->all()) flags.add(setting);
  }
}

void take_swift_config(const LaunchSource& source, Settings& flags, Settings& all) {
  const Setting* const named = flags.get("config");
  if (named == nullptr) return;
  const std::optional<Settings> keys = keys_of(source, named->value, named->where(), all);
  if (!keys) return;
  const auto words = [](const Setting& setting) {
    return setting.items.empty() ? std::vector<std::string>{setting.value} : setting.items;
  };
  std::map<std::string, Setting, std::less<>> own;  // `tuner_type` and `train_type` are one
  for (const Setting& flag : flags.all()) own[key_of_swift(flag.key)] = flag;
  for (const Setting& setting : keys->all()) {
    const auto stated = own.find(key_of_swift(setting.key));
    if (stated == own.end())
      flags.add(setting);
    else if (!say_the_same(words(stated->second), words(setting)))
      set(all, std::string(kOfConfig) + setting.key, setting.where(), stated->second);
  }
}

void refuse_other_config(JobBuilder& builder) {
  for (const Setting& setting : builder.settings.all()) {
    if (!setting.key.starts_with(kOfConfig)) continue;
    const std::string flag = setting.key.substr(kOfConfig.size()), key = key_of_swift(flag);
    const Setting* const counted = builder.settings.find(key);  // none: it was taken as another tool's key
    // DeepSpeed's file is opened while the command is taken.
    if (counted == nullptr || builder.settings.asked(*counted) || flag.starts_with("deepspeed") || sounds_weighty(flag))
      builder.errors.push_back(differs_from_config(setting.where(), flag, setting.value));
  }
}

}  // namespace plan::hugging_face
