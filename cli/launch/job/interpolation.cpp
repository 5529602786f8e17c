// OmegaConf's `${...}` in the files of NeMo, NeMo-RL and their like: another key, by its whole name or from where it
// is (`${.hidden_size}`), the resolvers that multiply and divide, and the default of a variable of the environment.
// Tested by tests/launch/native_test.cpp.
#include <algorithm>
#include <vector>

#include "cli/launch/job/keys.hpp"
#include "cli/settings/settings.hpp"

namespace plan {
namespace {

constexpr int kDeepest = 8;

/// The parts of `a, ${b}, ${mul:c, d}` between commas outside of braces.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += static_cast<int>(c == '{') - static_cast<int>(c == '}');
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else if (c != ' ' || !parts.back().empty())
      parts.back().push_back(c);
  }
  for (std::string& part : parts)
    while (!part.empty() && part.back() == ' ') part.pop_back();
  return parts;
}

/// The key that a name within braces means at `from`.
std::string key_named(std::string_view name, std::string_view from) {
  if (!name.starts_with('.')) return std::string(name);
  std::string section(from);
  while (name.starts_with('.')) {
    const std::size_t dot = section.rfind('.');
    section = dot == std::string::npos ? std::string() : section.substr(0, dot);
    name.remove_prefix(1);
  }
  return section.empty() ? std::string(name) : section + "." + std::string(name);
}

/// Where the file is mounted under a name (`training.model.x` in a file that has `model.x`), that name is left out.
const StatedValue* found(const StatedKeys& keys, const std::string& key) {
  if (const auto whole = keys.find(key); whole != keys.end()) return &whole->second;
  const std::size_t dot = key.find('.');
  const auto inner = dot == std::string::npos ? keys.end() : keys.find(key.substr(dot + 1));
  return inner == keys.end() ? nullptr : &inner->second;
}

std::optional<std::int64_t> calculated(std::string_view resolver, const std::vector<std::string>& words) {
  std::optional<std::int64_t> all;
  for (const std::string& word : words) {
    const std::optional<std::int64_t> value = to_integer(word);
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    if (!value || *value < 0 || *value > kMost) return std::nullopt;
    if (!all)
      all = value;
    else if (resolver == "mul" || resolver == "multiply")
      all = *all > kMost ? std::nullopt : std::optional(*all * *value);
    else if (*value > 0 && (resolver == "div" || resolver == "divide_floor"))
      all = *all / *value;
    else if (*value > 0 && resolver == "divide_ceil")
      all = (*all + *value - 1) / *value;
    else
      return std::nullopt;
    if (!all) return std::nullopt;
  }
  return all;
}

/// What a word comes to; itself where it is no interpolation, or one that is not known.
// Interpolations name each other as deep as kDeepest.
// NOLINTNEXTLINE(misc-no-recursion)
std::string resolved(const StatedKeys& keys, const std::string& word, const std::string& at, int depth) {
  if (depth > kDeepest || !word.starts_with("${") || !word.ends_with('}')) return word;
  const std::string inside = word.substr(2, word.size() - 3);
  if (const std::size_t colon = inside.find(':'); colon != std::string::npos) {
    std::vector<std::string> words = parts_of(std::string_view(inside).substr(colon + 1));
    for (std::string& part : words) part = resolved(keys, part, at, depth + 1);
    const std::string resolver = inside.substr(0, colon);
    // Whether the variable is set is not known here; tell_of_environment() names it.
    if (resolver == "oc.env" && words.size() == 2) return without_quotes(words[1]);
    if (resolver == "oc.decode" && words.size() == 1 && !words[0].starts_with("${")) return without_quotes(words[0]);
    const std::optional<std::int64_t> value = calculated(resolver, words);
    return value ? std::to_string(*value) : word;
  }
  const std::string key = key_named(inside, at);
  const StatedValue* value = found(keys, key);
  if (value == nullptr || value->values.size() != 1 || key == at) return word;
  return resolved(keys, value->values.front(), key, depth + 1);
}

}  // namespace

std::string without_quotes(const std::string& word) {
  const bool quoted = word.size() >= 2 && (word.front() == '\'' || word.front() == '"') && word.back() == word.front();
  return quoted ? word.substr(1, word.size() - 2) : word;
}

void interpolate(StatedKeys& keys) {
  const StatedKeys before = keys;
  for (auto& [key, value] : keys)
    for (std::string& word : value.values) word = resolved(before, word, key, 0);
  std::erase_if(keys, [&](const auto& one) {  // a default of null: not stated
    return one.second.values.size() == 1 && one.second.values.front() == "null" &&
           before.at(one.first).values != one.second.values;
  });
}

}  // namespace plan
