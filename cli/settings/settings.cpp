// Settings of TOML, YAML and JSON files with their places. Tested by
// tests/frameworks/framework_files_test.cpp.
#include "cli/settings/settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/shell/shell.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

void flatten(const yaml::Node& node, const std::string& key, const std::string& file, Settings& out) {
  switch (node.kind) {
    case yaml::Kind::Null: return;  // as if it were not there
    case yaml::Kind::Scalar:
      out.add({.key = key,
               .value = node.text,
               .items = {},
               .list = false,
               .place = {.file = file, .line = node.line, .column = node.column, .length = 1, .text = {}}});
      return;
    case yaml::Kind::Map:
      for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
        flatten(node.items[i + 1], key.empty() ? node.items[i].text : key + "." + node.items[i].text, file, out);
      return;
    case yaml::Kind::Sequence: break;
  }
  Setting list{.key = key,
               .value = {},
               .items = {},
               .list = true,
               .place = {.file = file, .line = node.line, .column = node.column, .length = 1, .text = {}}};
  for (std::size_t i = 0; i < node.items.size(); ++i)
    if (node.items[i].kind == yaml::Kind::Scalar)
      list.items.push_back(node.items[i].text);
    else
      flatten(node.items[i], fmt::format("{}[{}]", key, i), file, out);
  out.add(std::move(list));
}

Result<Settings> settings_of_tree(const LaunchSource& source, const Result<yaml::Document>& document) {
  if (!document) return tl::unexpected(document.error());
  if (document->root.kind != yaml::Kind::Map)
    return fail({"not_a_map", "the file is not a list of keys and values", {}, {}, place_in(source, 1, 1)});
  Settings settings;
  settings.remember(source);
  flatten(document->root, "", document->file, settings);
  return bounded(std::move(settings), source);
}

}  // namespace

std::string Setting::where() const { return fmt::format("{}:{}", place.file, place.line); }

std::optional<Error> too_many(std::string_view what, std::size_t count, std::string_view where) {
  if (count <= kMostKeys) return std::nullopt;
  return Error{"too_many_keys",
               fmt::format("{}: {} {}, and no framework takes more than {}", where, count, what, kMostKeys)};
}

std::vector<std::string> listed(std::string text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {text};
  std::vector<std::string> out;
  text = text.substr(1, text.size() - 2);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, end - at);
    std::erase_if(item, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
    if (!item.empty()) out.push_back(std::move(item));
    at = end + 1;
  }
  return out;
}

Result<Settings> bounded(Settings settings, const LaunchSource& source) {
  if (std::optional<Error> error = too_many("keys", settings.all().size(), source.path)) return fail(std::move(*error));
  for (const Overlay& over : source.overlays) {
    const bool list = over.value.starts_with('[') && over.value.ends_with(']');
    settings.add({.key = over.key,
                  .value = list ? std::string() : over.value,
                  .items = list ? listed(over.value) : std::vector<std::string>{},
                  .list = list,
                  .place = over.place});
  }
  return settings;
}

std::string_view shown_key(std::string_view key) {
  for (const std::string_view mark : {"ds.", "acc.", "args."})
    if (key.substr(0, mark.size()) == mark) return key.substr(mark.size());
  return key;
}

Place place_in(const LaunchSource& source, int line, int column) {
  Place place{.file = source.path, .line = line, .column = column, .length = 1, .text = {}};
  std::size_t start = 0;
  for (int at = 1; at < line && start != std::string::npos; ++at) {
    start = source.text.find('\n', start);
    if (start != std::string::npos) ++start;
  }
  if (line > 0 && start != std::string::npos && start <= source.text.size())
    place.text = source.text.substr(start, std::min<std::size_t>(source.text.find('\n', start) - start, 400));
  return place;
}

std::optional<std::int64_t> to_integer(std::string_view word) {
  std::string digits(word);
  std::erase(digits, '_');
  return as_number<std::int64_t>(digits);
}

void Settings::forget_section(const std::string& key) {
  std::erase_if(all_, [&](const Setting& one) {
    return one.key == key || (one.key.starts_with(key) && (one.key[key.size()] == '.' || one.key[key.size()] == '['));
  });
}

void Settings::replace_section(const std::string& key) {
  forget_section(key);
  replaced_.push_back(key);
}

void Settings::append(const Settings& other) {
  for (const std::string& key : other.replaced_) forget_section(key);
  all_.insert(all_.end(), other.all_.begin(), other.all_.end());
  sources_.insert(sources_.end(), other.sources_.begin(), other.sources_.end());
  sections_.insert(other.sections_.begin(), other.sections_.end());
}

const Setting* Settings::find(std::string_view key) const {
  const auto found = std::find_if(all_.rbegin(), all_.rend(), [&](const Setting& s) { return s.key == key; });
  return found == all_.rend() ? nullptr : &*found;  // the last one wins, as in Python
}

const Setting* Settings::get(std::string_view key) {
  asked_.emplace(key);
  return find(key);
}

bool Settings::states(std::string_view key) const {
  looked_for_.emplace(key);
  return find(key) != nullptr;
}

std::vector<std::string_view> Settings::asked_keys() const {
  std::vector<std::string_view> out{asked_.begin(), asked_.end()};
  out.insert(out.end(), looked_for_.begin(), looked_for_.end());
  return out;
}

bool Settings::has_section(std::string_view prefix) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Setting& s) { return s.key.rfind(prefix, 0) == 0; });
}

std::string Settings::home(std::string_view key) const {
  for (std::string_view section = key; !section.empty();) {
    const std::size_t dot = section.rfind('.');
    section = dot == std::string_view::npos ? std::string_view{} : section.substr(0, dot);
    if (const auto named = sections_.find(section); named != sections_.end())
      return fmt::format("{}:{}", named->second.file, named->second.line);
    const std::string prefix = section.empty() ? std::string() : std::string(section) + ".";
    const Setting* first = nullptr;
    for (const Setting& one : all_)
      if (one.key.starts_with(prefix) &&
          (first == nullptr || (one.place.file == first->place.file && one.place.line < first->place.line)))
        first = &one;
    if (first != nullptr) return first->where();
  }
  return {};
}

std::string Settings::where(std::string_view key) const {
  const Setting* setting = find(key);
  return setting != nullptr ? setting->where() : "";
}

void Settings::refuse(const Setting& setting, std::string_view wanted) {
  const std::string value = setting.list ? "a list" : "`" + yaml::printable(setting.value) + "`";
  Error error{"wrong_value",
              fmt::format("`{}` is {}, but must be {}", yaml::printable(shown_key(setting.key)), value, wanted)};
  error.place = setting.place;
  for (const LaunchSource& source : sources_) {
    if (source.path != setting.place.file) continue;
    error.place = place_in(source, setting.place.line, setting.place.column);
    if (is_shell(source) && value.find('$') != std::string::npos) error.help.emplace_back(kOpenValueHelp);
  }
  errors_.push_back(std::move(error));
}

std::optional<std::int64_t> Settings::integer(std::string_view key) {
  const Setting* setting = get(key);
  if (setting == nullptr) return std::nullopt;
  const std::optional<std::int64_t> value = setting->list ? std::nullopt : to_integer(setting->value);
  if (!value || std::abs(static_cast<double>(*value)) > 1e15) {
    refuse(*setting, "a whole number");
    return std::nullopt;
  }
  return value;
}

std::optional<double> Settings::number(std::string_view key) {
  const Setting* setting = get(key);
  if (setting == nullptr) return std::nullopt;
  const std::optional<double> value = setting->list ? std::nullopt : as_number<double>(setting->value);
  if (!value || !std::isfinite(*value)) {
    refuse(*setting, "a number");
    return std::nullopt;
  }
  return value;
}

std::optional<bool> truth_of(std::string_view word) {
  constexpr std::string_view kYes[] = {"true", "yes", "on", "1", "t", "y"},
                             kNo[] = {"false", "no", "off", "0", "f", "n"};
  const std::string text = lowered(std::string(word));
  if (std::find(std::begin(kYes), std::end(kYes), text) != std::end(kYes)) return true;
  if (std::find(std::begin(kNo), std::end(kNo), text) != std::end(kNo)) return false;
  return std::nullopt;
}

std::optional<bool> Settings::boolean(std::string_view key) {
  const Setting* setting = get(key);
  if (setting == nullptr) return std::nullopt;
  const std::string &file = setting->place.file, &word = setting->value;
  const bool data = file.ends_with(".yaml") || file.ends_with(".yml") || file.ends_with(".json");
  const bool letter = data && word.size() == 1 && std::isalpha(static_cast<unsigned char>(word.front())) != 0;
  if (const std::optional<bool> truth = truth_of(word); truth && !setting->list && !letter) return truth;
  refuse(*setting, "true or false");
  return std::nullopt;
}

std::optional<std::string> Settings::text(std::string_view key) {
  const Setting* setting = get(key);
  if (setting == nullptr) return std::nullopt;
  if (setting->list) {
    refuse(*setting, "a word");
    return std::nullopt;
  }
  return setting->value;
}

std::optional<Error> script_for_settings(const LaunchSource& source) {
  if (!is_shell(source)) return std::nullopt;
  return Error{"no_launch",
               fmt::format("{}: no command that starts a training was found", source.path),
               {"what the script calls may start one with files or variables that are not here"},
               {"record what it starts with `plan capture -o job.json -- bash SCRIPT` and read that"}};
}

Result<Settings> settings_of_yaml(const LaunchSource& source) {
  if (std::optional<Error> script = script_for_settings(source)) return fail(std::move(*script));
  return settings_of_tree(source, yaml::parse_with_anchors(source.text, source.path));
}

/// JSON is YAML in flow style, but for tabs and `//` comments, which Hjson (DeepSpeed's parser) takes as well.
Result<Settings> settings_of_json(const LaunchSource& source) {
  std::string text = source.text;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '\t') {
      text[i] = ' ';
    } else if (!quoted && text[i] == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      for (; i < text.size() && text[i] != '\n'; ++i) text[i] = ' ';
    }
  }
  return settings_of_tree(source, yaml::parse(std::move(text), source.path));
}

}  // namespace plan
