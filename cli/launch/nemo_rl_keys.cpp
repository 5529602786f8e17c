// NeMo-RL's YAML with what it inherits: `defaults:` names the files that it lies over, `${policy.x}` another key.
// Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include "cli/launch/dialect.hpp"
#include "cli/launch/settings.hpp"

namespace plan {
namespace {

constexpr int kDeepest = 8;

/// `${mul:${a}, ${b}}`: the product of two keys or numbers; nothing for other texts.
std::optional<std::string> product(const DialectKeys& keys, const std::string& text) {
  constexpr std::string_view kMul = "${mul:";
  if (!text.starts_with(kMul) || !text.ends_with('}')) return std::nullopt;
  const std::string inside = text.substr(kMul.size(), text.size() - kMul.size() - 1);
  std::int64_t all = 1;
  for (std::size_t at = 0; at <= inside.size();) {
    const std::size_t end = std::min(inside.find(',', at), inside.size());
    std::string term = inside.substr(at, end - at);
    std::erase(term, ' ');
    if (term.starts_with("${") && term.ends_with('}')) {
      const auto named = keys.find(term.substr(2, term.size() - 3));
      if (named == keys.end() || named->second.values.size() != 1) return std::nullopt;
      term = named->second.values.front();
    }
    const std::optional<std::int64_t> value = to_integer(term);
    if (!value || *value < 0 || *value > 1 << 30 || all > 1 << 30) return std::nullopt;
    all *= *value;
    at = end + 1;
  }
  return std::to_string(all);
}

/// `${policy.max_total_sequence_length}` as what that key holds; other interpolations stay as they are.
void interpolate(DialectKeys& keys) {
  for (auto& [key, value] : keys)
    for (std::string& word : value.values)
      if (const std::optional<std::string> number = product(keys, word)) word = *number;
  for (auto& [key, value] : keys)
    for (std::string& word : value.values)
      for (int again = 0; again < kDeepest && word.starts_with("${") && word.ends_with("}"); ++again) {
        const auto named = keys.find(word.substr(2, word.size() - 3));
        if (named == keys.end() || named->second.values.size() != 1 || named->first == key) break;
        word = std::string(named->second.values.front());
      }
}

// Files inherit as deep as kDeepest.
// NOLINTNEXTLINE(misc-no-recursion)
Result<DialectKeys> inherited(const LaunchSource& source, int depth) {
  Result<DialectKeys> keys = keys_of_yaml(source);
  if (!keys) return keys;
  const auto defaults = keys->find("defaults");
  if (defaults == keys->end()) return keys;
  const MegatronValue named = defaults->second;
  keys->erase(defaults);
  for (auto name = named.values.rbegin(); name != named.values.rend(); ++name) {  // later files lie over earlier ones
    const std::optional<LaunchSource> file = depth < kDeepest ? beside(source, *name) : std::nullopt;
    if (!file) {
      (*keys)[std::string(kMissingBase)] = {{*name}, named.where};
      continue;
    }
    Result<DialectKeys> below = inherited(*file, depth + 1);
    if (!below) return below;
    keys->insert(below->begin(), below->end());
  }
  return keys;
}

}  // namespace

Result<DialectKeys> keys_of_nemo_rl(const LaunchSource& source) {
  Result<DialectKeys> keys = inherited(source, 0);
  if (keys) interpolate(*keys);
  return keys;
}

}  // namespace plan
