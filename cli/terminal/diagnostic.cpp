// Errors on the terminal, after rustc's diagnostics: facts in `error:`, suggestions only in `help:`.
// Tested by tests/cli/diagnostic_test.cpp.
#include "cli/terminal/diagnostic.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace plan {
namespace {

constexpr std::array<std::string_view, 3> kAnswersNo = {"no_layout", "does_not_fit", "does_not_divide"};

bool answers_no(const Error& error) {
  return std::find(kAnswersNo.begin(), kAnswersNo.end(), error.code) != kAnswersNo.end();
}

/// Text before the caret: tabs stay tabs, so that the caret lands under its column.
std::string caret_padding(const Place& place) {
  std::string out;
  for (int i = 1; i < place.column; ++i) {
    const auto at = static_cast<std::size_t>(i - 1);
    out += at < place.text.size() && place.text[at] == '\t' ? '\t' : ' ';
  }
  return out;
}

/// A line too long for the terminal (a minified config.json) keeps what is around the column.
Place clipped(Place place, int width) {
  const int room = std::max(width - 6, 20), before = room / 2;
  if (static_cast<int>(place.text.size()) <= room || place.column < 1) return place;
  const int begin = std::clamp(place.column - 1 - before, 0, static_cast<int>(place.text.size()) - room);
  place.text = place.text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(room));
  place.column -= begin;
  return place;
}

std::string frame_of(const Place& whole, const Terminal& terminal) {
  Place place = clipped(whole, terminal.width);
  if (place.file.empty()) return "";
  if (place.line <= 0) return fmt::format("  --> {}\n", place.file);
  std::string out = fmt::format("  --> {}:{}:{}\n", place.file, place.line, std::max(whole.column, 1));
  if (place.text.empty()) return out;
  place.column = std::min(place.column, static_cast<int>(place.text.size()) + 1);
  const std::string number = fmt::format("{:>2}", place.line);
  const std::string gutter = std::string(number.size(), ' ') + " |";
  const int room = std::max(1, static_cast<int>(place.text.size()) - std::max(place.column, 1) + 1);
  const std::string carets(static_cast<std::size_t>(std::clamp(place.length, 1, room)), '^');
  out += gutter + "\n";
  out += fmt::format("{} | {}\n", number, place.text);
  out += fmt::format("{} {}{}\n", gutter, caret_padding(place), paint(terminal, Style::Bad, carets));
  return out;
}

/// Computed changes are printed together under one heading: everything that an answer of no suggests, and flags.
bool is_change(const Error& error, const std::string& help) { return answers_no(error) || help.rfind("--", 0) == 0; }

/// A row of a table; the blanks between its columns give way where it is too wide.
std::string squeezed(std::string row, int width) {
  for (std::size_t at = row.find("   "); at != std::string::npos && display_width(row) > width; at = row.find("   "))
    row.erase(at, 1);
  return row;
}

/// Digits of a number before its unit, which stand below those of other rows.
std::size_t digits(const Change& change) { return std::min(change.memory.find(' '), change.memory.size()); }

/// Changes in columns: what to type, the layout, its memory. A change that is too long for its column has a line to
/// itself, so that the rest stays aligned.
std::string change_rows(const std::vector<Change>& changes, const Terminal& terminal) {
  constexpr std::size_t kLead = 8, kIndent = 4, kWidest = 30, kBlanks = 2, kLeast = 19, kLeastLayout = 29;
  std::size_t flags = kLeast, layout = kLeastLayout, number = 0;
  for (const Change& change : changes) {
    if (change.flags.size() <= kWidest && !change.layout.empty()) flags = std::max(flags, change.flags.size());
    layout = std::max(layout, change.layout.size()), number = std::max(number, digits(change));
  }
  std::string out;
  for (const Change& change : changes) {
    out += std::string(kLead, ' ') + wrap(change.flags, terminal.width, kLead + kIndent, kLead);
    if (!change.layout.empty()) {
      const std::size_t column = kLead + flags + kBlanks;
      out += change.flags.size() > flags ? "\n" + std::string(column, ' ')
                                         : std::string(flags + kBlanks - change.flags.size(), ' ');
      std::string rest = change.layout;
      if (!change.memory.empty())
        rest += std::string(layout + kBlanks + number - digits(change) - rest.size(), ' ') + change.memory;
      out += squeezed(rest, terminal.width - static_cast<int>(column));
    }
    out += "\n";
  }
  return out;
}

std::string helps(const Error& error, const Terminal& terminal) {
  const std::string label = paint(terminal, Style::Good, "help:");
  std::string out;
  std::vector<Change> changes = error.changes;
  for (const std::string& help : error.help) {
    if (is_change(error, help))
      changes.push_back({help, {}, {}});
    else
      out += fmt::format("{} {}\n", label, wrap(help, terminal.width, 6));
  }
  if (changes.empty()) return out;
  const char* verb = error.code == "does_not_fit" ? "fit" : "work";
  return fmt::format("{} smallest changes that {}, one at a time\n", label, verb) + change_rows(changes, terminal) +
         out;
}

/// Texts of files without what a terminal would take as a command.
Error without_controls(Error error) {
  const auto clean = [](std::string& text) {
    std::replace_if(
        text.begin(), text.end(),
        [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f; }, '?');
  };
  clean(error.message), clean(error.place.file), clean(error.place.text);
  for (std::string& fact : error.facts) clean(fact);
  for (std::string& help : error.help) clean(help);
  for (Change& change : error.changes) clean(change.flags), clean(change.layout), clean(change.memory);
  return error;
}

}  // namespace

std::string diagnostic(const Error& raw, const Terminal& terminal) {
  const Error error = without_controls(raw);
  std::string out =
      fmt::format("{} {}\n", paint(terminal, Style::Bad, "error:"), wrap(error.message, terminal.width, 7));
  out += frame_of(error.place, terminal);
  for (const std::string& fact : error.facts) out += fmt::format("   = {}\n", wrap(fact, terminal.width, 5));
  return out + helps(error, terminal);
}

std::string source_frame(const Place& place, const Terminal& terminal) { return frame_of(place, terminal); }

int report_errors(const Errors& all, Streams& streams, std::string_view done) {
  streams.out.clear();
  Errors errors;  // what several jobs take from one line of a file is one mistake
  for (const Error& error : all)
    if (std::find(errors.begin(), errors.end(), error) == errors.end()) errors.push_back(error);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (i > 0) streams.err += "\n";
    streams.err += diagnostic(errors[i], streams.err_terminal);
  }
  if (errors.size() > 1) {
    const std::string& file = errors.front().place.file;
    const bool same = !file.empty() && std::all_of(errors.begin(), errors.end(),
                                                   [&](const Error& error) { return error.place.file == file; });
    streams.err += fmt::format("\n{} errors{}; nothing was {}\n", errors.size(),
                               same ? " in " + without_controls(errors.front()).place.file : "", done);
  }
  const bool no = !errors.empty() && std::all_of(errors.begin(), errors.end(), answers_no);
  return no ? kNo : kError;
}

}  // namespace plan
