// Losses and gradients that are no number. Tested by tests/logs/no_number_test.cpp.
#include "cli/logs/no_number.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"

namespace plan {
namespace {

/// Is a loss or a norm that `before` ends at a limit or a record, not what a step had: `max_grad_norm`, `best val
/// loss`? Those begin at infinity, or say that there is no limit.
bool is_limit(std::string_view before) {
  constexpr int kWords = 2;  // before the name itself
  for (int word = 0; word < kWords; ++word) {
    const std::size_t end = before.find_last_not_of(" _-");
    if (end == std::string_view::npos || std::isalpha(static_cast<unsigned char>(before[end])) == 0) return false;
    std::size_t begin = end;
    while (begin > 0 && std::isalpha(static_cast<unsigned char>(before[begin - 1])) != 0) --begin;
    const std::string one = lowered(std::string(before.substr(begin, end + 1 - begin)));
    if (among_words("max min clip clipped best lowest check", one)) return true;
    before = before.substr(0, begin);
  }
  return false;
}

/// The word of a value behind its name, without quotes and what Python prints around a number: `tensor(nan, ...`.
std::string value_word(std::string_view text) {
  const auto trimmed = [&] { text.remove_prefix(std::min(text.find_first_not_of(" \t:='\"|-["), text.size())); };
  trimmed();
  const std::size_t name = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  if (name != std::string_view::npos && name > 0 && text[name] == '(') text.remove_prefix(name + 1);
  trimmed();
  return lowered(std::string(text.substr(0, text.find_first_of(" \t\r|,;}])'\""))));
}

}  // namespace

bool has_no_number(std::string_view line) {
  for (const std::string_view key : {"loss", "Loss", "grad_norm", "grad norm"})
    for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
      const bool inside = at > 0 && std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 && key != "Loss";
      if (inside || is_limit(line.substr(0, at))) continue;
      const std::string word = value_word(line.substr(at + key.size()));
      if (word == "nan" || word == "inf" || word == "infinity") return true;
    }
  return false;
}

std::string no_number_text(double lines) {
  if (lines <= 0) return {};
  return fmt::format(", {:.0f} {} whose loss or gradient is no number", lines, lines == 1 ? "line" : "lines");
}

}  // namespace plan
