// What keys hold, as words, numbers and switches. Tested by tests/launch/dialect_derive_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kNothingWords[] = {"null", "none", "~", ""};

bool is_among(std::span<const std::string_view> words, const std::string& text) {
  return std::find(words.begin(), words.end(), lowered(text)) != words.end();
}

}  // namespace

std::string with_dashes(std::string_view key) {
  std::string flag(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string with_underscores(std::string_view flag) {
  std::string key(flag);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

bool say_the_same(std::span<const std::string> some, std::span<const std::string> others) {
  const auto same = [](const std::string& one, const std::string& other) {
    if (lowered(one) == lowered(other) || (truth_of(one) && truth_of(one) == truth_of(other))) return true;
    const std::optional<double> x = as_number<double>(lowered(one)), y = as_number<double>(lowered(other));
    return x && y && *x == *y;
  };
  return std::equal(some.begin(), some.end(), others.begin(), others.end(), same);
}

bool is_true(const StatedValue& value) { return !value.values.empty() && truth_of(value.values[0]).value_or(false); }

bool is_false(const StatedValue& value) {
  if (value.values.empty()) return true;
  return value.values.size() == 1 &&
         (!truth_of(value.values[0]).value_or(true) || is_among(kNothingWords, value.values[0]));
}

StatedKeys without_nulls(StatedKeys keys) {
  std::erase_if(keys, [](const auto& key) {
    return key.second.values.size() == 1 && (key.second.values[0] == "null" || key.second.values[0] == "~");
  });
  return keys;
}

StatedKeys keys_under(const StatedKeys& keys, std::string_view prefix) {
  StatedKeys out;
  for (const auto& [key, value] : keys)
    if (key.starts_with(prefix)) out[key.substr(prefix.size())] = value;
  return out;
}

namespace {
constexpr int kLargestCount = 1 << 20;

/// The least number that a key takes. No tool finds out by itself what a step is made of, which others write as -1.
std::int64_t least_of(std::string_view key) {
  constexpr std::int64_t kAutomatic = -1;
  return key.ends_with("gradient_accumulation_steps") || key.ends_with("mini_batch_size") ? 1 : kAutomatic;
}
}  // namespace

int number_of(const StatedKeys& keys, std::string_view key) {
  const auto found = key.empty() ? keys.end() : keys.find(key);
  if (found == keys.end() || found->second.values.empty()) return 0;
  const std::optional<std::int64_t> number = to_integer(found->second.values[0]);
  return number ? static_cast<int>(std::clamp<std::int64_t>(*number, 0, kLargestCount)) : 0;
}

std::optional<Error> no_number(const StatedKeys& keys, std::string_view key, bool asked_elsewhere) {
  const auto found = key.empty() ? keys.end() : keys.find(key);
  if (found == keys.end() || found->second.values.size() != 1) return std::nullopt;
  const std::string& word = found->second.values.front();
  const bool open = word.find('$') != std::string::npos;
  const std::optional<std::int64_t> number = to_integer(word);
  const std::int64_t least = least_of(key);
  if (number ? *number >= least && *number <= kLargestCount
             : switched_off(word) || lowered(word) == "auto" || word == "???")
    return std::nullopt;
  if (open && asked_elsewhere) return std::nullopt;
  Error error{
      "wrong_value",
      fmt::format("{}: `{}` is `{}`, but must be a whole number{}", found->second.where, key, yaml::printable(word),
                  number ? fmt::format(" from {} to {}", std::max<std::int64_t>(0, least), kLargestCount) : "")};
  if (open) error.help.emplace_back(kOpenValueHelp);
  return error;
}

std::string_view number_format(std::string_view word) {
  const std::string name = lowered(std::string(word));
  const auto has = [&name](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("bf16") || has("bfloat16")) return "bf16";
  if (name == "16" || name.starts_with("16-") || has("fp16") || has("float16") || name == "half") return "fp16";
  if (name == "32" || name.starts_with("32-") || has("fp32") || has("float32")) return "fp32";
  return {};
}

std::string word_of(const StatedKeys& keys, std::string_view key) {
  const auto found = keys.find(key);
  return found == keys.end() || found->second.values.empty() ? "" : found->second.values.front();
}

bool is_on(const StatedKeys& keys, std::string_view key) {
  const auto found = keys.find(key);
  return found != keys.end() && !found->second.values.empty() && is_true(found->second);
}

std::string where_of(const StatedKeys& keys, std::string_view key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "" : found->second.where;
}

}  // namespace plan
