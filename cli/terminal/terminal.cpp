// The only file that knows about terminals: colour, width, characters. Tested by tests/cli/terminal_test.cpp.
#include "cli/terminal/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "cli/terminal/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

constexpr int kUnknownWidth = 80, kWidest = 100, kNarrowest = 72;

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, before any thread
  return value == nullptr ? std::string() : std::string(value);
}

bool is_utf8(const std::string& name) {
  const std::string locale = lowered(name);
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

std::string_view escape(Style style) {
  switch (style) {
    case Style::Plain: return "";
    case Style::Bold: return "\033[1m";
    case Style::Dim: return "\033[2m";
    case Style::Good: return "\033[32m";
    case Style::Warn: return "\033[33m";
    case Style::Bad: return "\033[1;31m";
  }
  return "";
}

}  // namespace

Environment read_environment() {
  Environment env{variable("TERM"), variable("NO_COLOR"), variable("LC_ALL")};
  if (env.locale.empty()) env.locale = variable("LC_CTYPE");
  if (env.locale.empty()) env.locale = variable("LANG");
  return env;
}

Terminal make_terminal(bool tty, int columns, ColorMode mode, bool ascii, const Environment& env) {
  Terminal terminal;
  terminal.tty = tty;
  terminal.unicode = !ascii && is_utf8(env.locale);
  terminal.width = columns > 0 ? std::clamp(columns, kNarrowest, kWidest) : kUnknownWidth;
  switch (mode) {
    case ColorMode::Always: terminal.color = true; break;
    case ColorMode::Never: terminal.color = false; break;
    case ColorMode::Auto: terminal.color = tty && env.term != "dumb" && env.no_color.empty(); break;
  }
  return terminal;
}

Terminal inspect_terminal(int descriptor, ColorMode mode, bool ascii, const Environment& env) {
  const bool tty = isatty(descriptor) == 1;
  winsize size{};
  const bool known = tty && ioctl(descriptor, TIOCGWINSZ, &size) == 0;
  return make_terminal(tty, known ? size.ws_col : 0, mode, ascii, env);
}

std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.color || style == Style::Plain || text.empty()) return std::string(text);
  return std::string(escape(style)).append(text).append("\033[0m");
}

std::string progress_line(std::string_view text) { return std::string("\r\033[K").append(text); }

std::string bar(const Terminal& terminal, double columns) {
  if (!(columns > 0)) return "";
  if (!terminal.unicode) return std::string(static_cast<std::size_t>(std::lround(columns)), '#');
  static constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const long eighths = std::lround(columns * 8);
  std::string out;
  for (long i = 0; i < eighths / 8; ++i) out += "█";
  return out.append(kEighths[static_cast<std::size_t>(eighths % 8)]);
}

int display_width(std::string_view text) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      while (i < text.size() && text[i] != 'm') ++i;
      continue;
    }
    const bool continuation = (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
    if (!continuation) ++columns;
  }
  return columns;
}

namespace {

/// Where the word at `begin` ends. A number and its unit are one: a line does not begin with `%`.
std::size_t word_end(std::string_view text, std::size_t begin) {
  const std::size_t end = std::min(text.find(' ', begin), text.size());
  if (end == begin || end == text.size() || std::isdigit(static_cast<unsigned char>(text[end - 1])) == 0) return end;
  const std::size_t next = std::min(text.find(' ', end + 1), text.size());
  std::string_view unit = text.substr(end + 1, next - end - 1);
  unit = unit.substr(0, unit.find_last_not_of(",.;:)") + 1);
  return among_words("% s ms us GiB MiB KiB GB MB GB/s TFLOP/s k M B T", unit) ? next : end;
}

}  // namespace

std::string wrap(std::string_view text, int width, int indent, int first) {
  std::string out;
  int column = first < 0 ? indent : first;
  bool fresh = true;
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t end = word_end(text, i);
    const std::string_view word = text.substr(i, end - i);
    const int columns = display_width(word);
    if (!fresh && columns > 0 && column + 1 + columns > width) {
      out.erase(out.find_last_not_of(' ') + 1);  // of two blanks the first would end the line
      out.append("\n").append(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (!fresh) {
      out += ' ';
      ++column;
    }
    out.append(word);
    column += columns;
    fresh = false;
    i = end + 1;
  }
  return out;
}

std::string wrap_items(const std::vector<std::string>& items, int width, int indent) {
  std::string out;
  int column = indent;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool last = i + 1 == items.size();
    const int columns = display_width(items[i]) + (last ? 0 : 1);
    if (i > 0 && column + 1 + columns > width) {
      out.append("\n").append(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (i > 0) {
      out += ' ';
      ++column;
    }
    out.append(items[i]).append(last ? "" : ",");
    column += columns;
  }
  return out;
}

}  // namespace plan
