// Files of flags that ms-swift's commands name: swift/cli/main.py, 3.4 to 4.6. Tested by
// tests/launch/swift_files_test.cpp.
#include <fmt/core.h>

#include "cli/launch/job/keys.hpp"
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
  for (const Setting& setting : keys->all()) {
    const Setting* const stated = flags.find(setting.key);
    if (stated == nullptr)
      flags.add(setting);
    else if (stated->value != setting.value || stated->items != setting.items)
      all.errors().push_back(differs_from_config(stated->where(), setting.key, setting.where()));
  }
}

}  // namespace plan::hugging_face
