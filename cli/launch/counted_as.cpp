// Keys that are known and counted as if they had another value are told. Tested by
// tests/launch/torchtitan_switches_test.cpp and tests/launch/deepspeed_switches_test.cpp.
#include "cli/launch/counted_as.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "presets/quantity.hpp"
#include "presets/yaml.hpp"

namespace plan {

std::vector<std::string> words_of(const Setting& setting) {
  return setting.list ? setting.items : std::vector<std::string>{setting.value};
}

bool is_plain(std::string_view word, std::string_view plain) {
  if (word.empty()) return true;
  const std::optional<double> number = parse_number(word);
  while (!plain.empty()) {
    const std::string_view first = plain.substr(0, plain.find(' '));
    if (first == word || (number && number == parse_number(first))) return true;
    plain.remove_prefix(std::min(plain.size(), first.size() + 1));
  }
  return false;
}

bool tell_counted_as(JobBuilder& builder, const CountedAs& row) {
  const Setting* setting = builder.settings.get(row.key);
  if (setting == nullptr) return false;
  for (const std::string& word : words_of(*setting)) {
    if (is_plain(word, row.plain)) continue;
    builder.unmodelled("not_counted", fmt::format("{}: `{} = {}`: {}", setting->where(), shown_key(row.key),
                                                  yaml::printable(word), row.what));
    return true;
  }
  return false;
}

}  // namespace plan
