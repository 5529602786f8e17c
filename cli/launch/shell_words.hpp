#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/shell_text.hpp"

namespace plan::shell {

/// A word as written, or an operator: newline, `;`, `&&`, `||`, `|`, `&`, `(`, `)`, `;;`, `in` behind `case x`.
struct Token {
  Text raw{};
  int line = 0;
  bool word = true;
};

/// Splits a script into words and operators. Comments, here-documents and redirections are left out.
[[nodiscard]] std::vector<Token> tokens(std::string_view text, int first_line);
[[nodiscard]] std::vector<Token> tokens(const Text& text);
/// Words alone, newlines as blanks: what stands between the parentheses of an array.
[[nodiscard]] std::vector<Token> words_of(const Text& text);

/// The words between `[` and `]`: -z -n = == != -eq ... and ! && ||. Nothing if a word depends on more than the text.
[[nodiscard]] std::optional<bool> compare(const std::vector<std::string>& words);

}  // namespace plan::shell
