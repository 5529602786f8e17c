// TOML over toml++, which throws at a mistake; nothing leaves this file as an exception.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "cli/settings/settings.hpp"

namespace plan {
namespace {

std::string scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  if (const auto* whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  std::ostringstream out;  // dates and times, which no key of ours has
  node.visit([&](const auto& value) {
    if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                  toml::is_date_time<decltype(value)>)
      out << value.get();
  });
  return out.str();
}

Place place_of(const toml::node& node, const std::string& file) {
  const toml::source_position at = node.source().begin;
  return {
      .file = file, .line = static_cast<int>(at.line), .column = static_cast<int>(at.column), .length = 1, .text = {}};
}

// Tables nest as deep as toml++ lets them (256).
// NOLINTNEXTLINE(misc-no-recursion)
void flatten(const toml::node& node, const std::string& key, const std::string& file, Settings& out) {
  if (const toml::table* table = node.as_table()) {
    if (!key.empty()) out.add_section(key, place_of(node, file));
    for (const auto& [name, value] : *table)
      flatten(value, key.empty() ? std::string(name.str()) : fmt::format("{}.{}", key, name.str()), file, out);
    return;
  }
  const Place place = place_of(node, file);
  const toml::array* array = node.as_array();
  if (array == nullptr)
    return out.add({.key = key, .value = scalar_text(node), .items = {}, .list = false, .place = place});
  Setting list{.key = key, .value = {}, .items = {}, .list = true, .place = place};
  std::size_t index = 0;
  for (const toml::node& item : *array) {
    if (item.is_array() || item.is_table())
      flatten(item, fmt::format("{}[{}]", key, index), file, out);
    else
      list.items.push_back(scalar_text(item));
    ++index;
  }
  out.add(std::move(list));
}

/// toml++ says "Error while parsing string: what is wrong".
std::string message_of(std::string_view description) {
  constexpr std::string_view kStart = "Error while parsing ";
  if (description.substr(0, kStart.size()) != kStart) return std::string(description);
  description.remove_prefix(kStart.size());
  const std::size_t colon = description.find(": ");
  if (colon == std::string_view::npos) return fmt::format("not TOML: {}", description);
  return fmt::format("not TOML, in a {}: {}", description.substr(0, colon), description.substr(colon + 2));
}

constexpr int kMostKeyParts = 64;  // toml++ descends once for each, however many there are

/// Behind the string that starts at `at`; a string of one line ends with its line at the latest, as toml++ has it.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string thrice(3, quote);
  const bool lines = text.substr(at, 3) == thrice;
  for (at += lines ? 3 : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\')
      ++at;
    else if (lines ? text.substr(at, 3) == thrice : text[at] == quote)
      return at + (lines ? 3 : 1);
    else if (!lines && text[at] == '\n')
      return at;
  }
  return text.size();
}

/// Where a key of too many parts is: dots outside of strings and comments with nothing between them that ends a
/// key.
std::optional<std::size_t> endless_key(std::string_view text) {
  int dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"' || c == '\'') {
      at = behind_string(text, at);
    } else {
      if (c == '.' && ++dots >= kMostKeyParts) return at;
      if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos) dots = 0;
      ++at;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<Settings> settings_of_toml(const LaunchSource& source) {
  if (std::optional<Error> script = script_for_settings(source)) return fail(std::move(*script));
  if (const std::optional<std::size_t> at = endless_key(source.text)) {
    const auto line = 1 + std::count(source.text.begin(), source.text.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
    return fail({"bad_toml",
                 fmt::format("a key has more than {} parts", kMostKeyParts),
                 {},
                 {},
                 place_in(source, static_cast<int>(line), 1)});
  }
  try {
    const toml::table table = toml::parse(source.text, source.path);
    Settings settings;
    settings.remember(source);
    flatten(table, "", source.path, settings);
    return bounded(std::move(settings), source);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    return fail({"bad_toml",
                 message_of(error.description()),
                 {},
                 {},
                 place_in(source, static_cast<int>(at.line), static_cast<int>(at.column))});
  }
}

}  // namespace plan
