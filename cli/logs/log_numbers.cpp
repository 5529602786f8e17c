// Numbers as frameworks print them: separators, letters behind them, units, and the bars of tqdm. Tested by
// tests/logs/log_test.cpp.
#include "cli/logs/log_numbers.hpp"

#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include "formulas/units.hpp"

namespace plan {

std::optional<double> number_at(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t' || text.front() == '=')) text.remove_prefix(1);
  std::string digits;
  std::size_t i = 0;
  for (; i < text.size() && digits.size() < 40; ++i) {
    const char c = text[i];
    const bool exponent =
        (c == 'e' || c == 'E') && !digits.empty() && i + 1 < text.size() &&
        (std::isdigit(static_cast<unsigned char>(text[i + 1])) || text[i + 1] == '-' || text[i + 1] == '+');
    const bool sign = (c == '-' || c == '+') && (digits.empty() || digits.back() == 'e' || digits.back() == 'E');
    const bool grouping =
        c == ',' && !digits.empty() && i + 3 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])) &&
        std::isdigit(static_cast<unsigned char>(text[i + 2])) && std::isdigit(static_cast<unsigned char>(text[i + 3]));
    if (grouping) continue;
    if (!std::isdigit(static_cast<unsigned char>(c)) && c != '.' && !exponent && !sign) break;
    if (c != '+') digits += c;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end == digits.data() || !std::isfinite(value)) return std::nullopt;
  const char letter = i < text.size() ? text[i] : ' ';
  const char next = i + 1 < text.size() ? text[i + 1] : ' ';
  if (!std::isalpha(static_cast<unsigned char>(next))) {  // "1.2K", not "1.2KiB", whose unit the key tells
    if (letter == 'K') return value * 1e3;
    if (letter == 'M') return value * 1e6;
    if (letter == 'G') return value * 1e9;
    if (letter == 'T') return value * 1e12;
  }
  return value;
}

std::optional<double> number_after(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    const bool begins = !std::isalnum(static_cast<unsigned char>(before)) && before != '_';
    if (begins)
      if (const auto value = number_at(line.substr(at + key.size()))) return value;
  }
  return std::nullopt;
}

std::optional<Bar> bar_on(std::string_view line) {
  const std::size_t percent = line.find("%|");
  const std::size_t end = line.rfind(']');
  if (percent == std::string_view::npos || end == std::string_view::npos || end < percent) return std::nullopt;
  std::string_view before = line.substr(0, percent);
  while (!before.empty() && (std::isdigit(static_cast<unsigned char>(before.back())) || before.back() == ' '))
    before.remove_suffix(1);
  if (before.ends_with(':')) {
    const std::string_view word = before.substr(before.find_last_of(' ', before.size()) + 1);
    if (word.find_first_of("0123456789])") == std::string_view::npos) return std::nullopt;
    if (before.find("poch") != std::string_view::npos) return std::nullopt;  // Lightning's bars count micro-batches
  } else if (!before.empty() && before.back() != ')' && before.back() != ']') {
    return std::nullopt;
  }
  const std::string_view bar = line.substr(percent, end - percent);
  const std::size_t slash = bar.rfind('/', bar.find(" ["));
  const std::size_t comma = bar.rfind(',');
  if (slash == std::string_view::npos || comma == std::string_view::npos) return std::nullopt;
  const std::optional<double> steps = number_at(bar.substr(slash + 1)), rate = number_at(bar.substr(comma + 1));
  if (!steps || !rate || !(*rate > 1e-9 && *rate < 1e9) || !(*steps >= 1 && *steps < 1e15)) return std::nullopt;
  if (bar.ends_with("s/it")) return Bar{static_cast<std::int64_t>(*steps), *rate};
  if (bar.ends_with("it/s")) return Bar{static_cast<std::int64_t>(*steps), 1 / *rate};
  return std::nullopt;
}

RealBytes bytes_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + key.size());
  const std::optional<double> number = number_at(rest);
  if (!number) return {};
  const std::size_t unit = rest.find("iB");
  if (unit == std::string_view::npos || unit == 0 || unit > 16) return {};
  switch (rest[unit - 1]) {
    case 'G': return RealBytes(*number * kGiB);
    case 'M': return RealBytes(*number * kMiB);
    case 'K': return RealBytes(*number * kKiB);
    default: return {};
  }
}

RealBytes bytes_before(std::string_view line, std::string_view words) {
  const std::size_t at = line.find(words);
  if (at == std::string_view::npos) return {};
  std::size_t begin = at;
  while (begin > 0 &&
         (std::isdigit(static_cast<unsigned char>(line[begin - 1])) || line[begin - 1] == '.' ||
          line[begin - 1] == ' ' || std::isalpha(static_cast<unsigned char>(line[begin - 1]))) &&
         at - begin < 14)
    --begin;
  while (begin < at && !std::isdigit(static_cast<unsigned char>(line[begin]))) ++begin;
  return bytes_after(line.substr(begin, at - begin), "");
}

}  // namespace plan
