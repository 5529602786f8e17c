#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/shell/text.hpp"

namespace plan::shell {

/// What a token says of a command's input or output, where it is no word of the command.
enum class Redirection {
  None,
  Into,     ///< the file of `> file`
  Onto,     ///< the file of `>> file`
  Here,     ///< the text of `<<END`
  Literal,  ///< the text of `<<'END'`, in which nothing is expanded
};

/// A word as written, or an operator: newline, `;`, `&&`, `||`, `|`, `&`, `(`, `)`, `;;`, `in` behind `case x`.
struct Token {
  Text raw{};
  int line = 0;
  bool word = true;
  Redirection redirection = Redirection::None;
};

/// Splits a script into words and operators. Comments are left out, and redirections of other streams than a
/// command's own input text and its output.
[[nodiscard]] std::vector<Token> tokens(std::string_view text, int first_line);
[[nodiscard]] std::vector<Token> tokens(const Text& text);
/// The words of a command without what its input and output are.
[[nodiscard]] std::vector<Token> without_redirections(std::vector<Token> tokens);
/// Words alone, newlines as blanks: what is between the parentheses of an array.
[[nodiscard]] std::vector<Token> words_of(const Text& text);

/// Index behind the bracket that closes the one at `open`, quotes skipped; npos if it never closes.
[[nodiscard]] std::size_t closing(std::string_view text, std::size_t open, char left, char right);

/// Whether a line has what a regular expression describes; nothing where that is more than characters, `.`, `.*`, sets
/// and anchors, with alternatives of these. `whole`: the line is that, from end to end.
[[nodiscard]] std::optional<bool> finds(std::string_view pattern, std::string_view line, bool extended,
                                        bool whole = false);

/// The words between `[` and `]`: -z -n = == =~ != -eq ... and ! && ||. Nothing if a word depends on more than the
/// text.
[[nodiscard]] std::optional<bool> compare(const std::vector<std::string>& words);

}  // namespace plan::shell
