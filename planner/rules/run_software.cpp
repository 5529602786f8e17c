// The software of published runs, by the names that tables of runs give it. Tested by
// tests/acceptance/published_software_test.cpp.
#include "planner/rules/run_software.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "formulas/text.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

const RunSoftware* software_called(std::string_view name) {
  for (const RunSoftware& software : run_software())
    if (std::any_of(software.names.begin(), software.names.end(),
                    [&](std::string_view known) { return alike(known, name); }))
      return &software;
  return nullptr;
}

/// 1000 * major + minor of "0.6.0", "v1.2": at least two numbers with points between them, and nothing else.
std::optional<int> version_of(std::string_view word) {
  constexpr int kMinors = 1000;
  if (word.starts_with('v')) word.remove_prefix(1);
  int numbers[2] = {}, count = 0;
  for (const char* at = word.data(); count == 0 || at != word.data() + word.size(); ++count) {
    if (count > 0 && *at++ != '.') return std::nullopt;
    int number = 0;
    const auto [end, error] = std::from_chars(at, word.data() + word.size(), number);
    if (error != std::errc{} || number < 0 || number >= kMinors) return std::nullopt;
    if (count < 2) numbers[count] = number;
    at = end;
  }
  return count < 2 ? std::nullopt : std::optional(numbers[0] * kMinors + numbers[1]);
}

/// Letters that two names have in common at their beginning.
std::size_t common(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (count < std::min(a.size(), b.size()) && lower_case(a[count]) == lower_case(b[count])) ++count;
  return count;
}

}  // namespace

bool has_word(std::string_view text, std::string_view word) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !letter(text[at - 1])) && (end == text.size() || !letter(text[end]))) return true;
  }
  return false;
}

bool RunSigns::says(std::string_view word) const { return has_word(words, word); }

std::span<const RunSoftware> run_software() { return stacks::run_software(); }

const RunSoftware* software_of_key(std::string_view key) {
  for (const RunSoftware& software : run_software())
    if (software.key == key) return &software;
  return nullptr;
}

NamedSoftware named_software(std::string_view cell) {
  if (const RunSoftware* software = software_called(cell)) return {software};
  const std::size_t space = cell.rfind(' ');
  if (space == std::string_view::npos) return {};
  const std::optional<int> version = version_of(cell.substr(space + 1));
  const RunSoftware* software = version ? software_called(cell.substr(0, space)) : nullptr;
  return software == nullptr ? NamedSoftware{} : NamedSoftware{software, *version};
}

std::string names_like(std::string_view cell) {
  constexpr std::size_t kLeast = 3;  // letters
  std::size_t most = kLeast;
  std::string all;
  for (const RunSoftware& software : run_software())
    for (const std::string_view name : software.names) {
      const std::size_t letters = common(cell, name);
      if (letters < most) continue;
      if (letters > most) all.clear();
      most = letters;
      all.append(all.empty() ? "`" : ", `").append(name).append("`");
    }
  return all;
}

RunDefaults run_defaults(const RunSoftware& software, const RunSigns& signs) {
  RunDefaults defaults{software.stack(), {}};
  software.runs(signs, defaults);
  return defaults;
}

}  // namespace plan
