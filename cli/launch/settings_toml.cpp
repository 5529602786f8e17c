// TOML over toml++, which throws at a mistake; nothing leaves this file as an exception.
// Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>
#include <toml++/toml.h>

#include <sstream>

#include "cli/launch/settings.hpp"

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

}  // namespace

Result<Settings> settings_of_toml(const LaunchSource& source) {
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
