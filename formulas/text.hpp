#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace plan {

/// ASCII only: names are, and the C library's own asks the locale at every letter.
[[nodiscard]] constexpr char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
[[nodiscard]] constexpr char upper_case(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

/// A text with every ASCII letter in lower case, or in capitals.
[[nodiscard]] inline std::string lowered(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), lower_case);
  return text;
}
[[nodiscard]] inline std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), upper_case);
  return text;
}
/// Whether two words differ in nothing but case.
[[nodiscard]] constexpr bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower_case(x) == lower_case(y); });
}

/// A name as it is compared: in lower case, without the signs that people put between its words.
[[nodiscard]] inline std::string without_signs(std::string_view name, std::string_view signs = "-_ ") {
  std::string out;
  for (const char c : name)
    if (signs.find(c) == std::string_view::npos) out += lower_case(c);
  return out;
}

[[nodiscard]] constexpr bool letter_or_digit(char c) {
  return (lower_case(c) >= 'a' && lower_case(c) <= 'z') || (c >= '0' && c <= '9');
}
/// What is left of a name in lower case without any sign.
[[nodiscard]] inline std::string letters_and_digits(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (letter_or_digit(c)) out += lower_case(c);
  return out;
}

/// All that a line and its end are blank by.
inline constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";
/// A text without the blanks around it.
[[nodiscard]] constexpr std::string_view trim(std::string_view text, std::string_view blanks = " \t") {
  const std::size_t first = std::min(text.find_first_not_of(blanks), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

/// The number that a word is from its first letter to its last; none where it is anything else, or does not fit.
template <class T>
[[nodiscard]] std::optional<T> as_number(std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

}  // namespace plan
