#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plan {

/// What a piece of text means; colour only adds to what the words already say.
enum class Style { Plain, Bold, Dim, Good, Warn, Bad };

enum class ColorMode { Auto, Always, Never };

/// The part of the environment that decides how text is shown.
struct Environment {
  std::string term{};
  std::string no_color{};
  std::string locale{};  ///< first of LC_ALL, LC_CTYPE, LANG that is set
};
[[nodiscard]] Environment read_environment();

/// How one stream can be written to.
struct Terminal {
  bool tty = false;
  bool color = false;
  bool unicode = false;  ///< block characters in bars, else `#`
  int width = 80;        ///< columns, at most 100
};
[[nodiscard]] Terminal make_terminal(bool tty, int columns, ColorMode mode, bool ascii, const Environment& env);
/// The same for an open file descriptor.
[[nodiscard]] Terminal inspect_terminal(int descriptor, ColorMode mode, bool ascii, const Environment& env);

[[nodiscard]] std::string paint(const Terminal& terminal, Style style, std::string_view text);

/// Puts `text` in the place of the current line; nothing clears it.
[[nodiscard]] std::string progress_line(std::string_view text);

/// A bar of `columns` columns, a fraction allowed: block characters to an eighth, or whole `#`.
[[nodiscard]] std::string bar(const Terminal& terminal, double columns);

/// Columns that `text` takes: escapes none, a UTF-8 character one.
[[nodiscard]] int display_width(std::string_view text);

/// `text` broken at spaces to `width` columns, but not between a number and its unit; lines after the first start with
/// `indent` spaces.
[[nodiscard]] std::string wrap(std::string_view text, int width, int indent, int first = -1);

/// The same for a list: items joined by commas, broken only between items.
[[nodiscard]] std::string wrap_items(const std::vector<std::string>& items, int width, int indent);

}  // namespace plan
