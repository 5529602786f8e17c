// What a pipeline comes to: the status of its last command, and what grep finds in the words that are printed into it.
// Tested by tests/launch/bash_test.cpp and pipelines_test.cpp.
#include <algorithm>

#include "cli/shell/follower.hpp"
#include "formulas/text.hpp"

namespace plan::shell {
namespace {

constexpr std::string_view kRepeats = "*+?{";
constexpr std::string_view kEscaped = ".[]*^$\\/-";  // means itself behind a backslash, in basic and extended patterns
constexpr std::size_t kMostSearched = 4096;          // characters of a text and of a pattern

/// A character that stands for itself, as a pattern of `matches`.
void add_literal(std::string& glob, char c) {
  if (c == '*' || c == '?' || c == '[')
    glob += {'[', c, ']'};
  else
    glob += c;
}

/// One alternative of a regular expression as a pattern of `matches`, which holds anywhere in a line where the
/// expression has no anchor. Nothing where it repeats or groups anything but `.`.
std::optional<std::string> glob_of(std::string_view text, bool extended, bool whole) {
  std::string out;
  const bool from_start = text.starts_with('^');
  if (from_start) text.remove_prefix(1);
  const bool to_end = text.ends_with('$') && !text.ends_with("\\$");
  if (to_end) text.remove_suffix(1);
  if (!from_start && !whole) out += '*';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '\\') {
      const bool means_itself = kEscaped.find(next) != std::string_view::npos ||
                                (extended && std::string_view("+?{}()|").find(next) != std::string_view::npos);
      if (next == '\0' || !means_itself) return std::nullopt;
      add_literal(out, next), ++i;
    } else if (c == '.') {
      if (next == '*') ++i;
      out += next == '*' ? '*' : '?';
    } else if (c == '[') {
      const std::size_t close = text.find(']', i + 2);
      if (close == std::string_view::npos) return std::nullopt;
      const std::string_view inside = text.substr(i + 1, close - i - 1);
      if (inside.find_first_of("[\\!") != std::string_view::npos || inside.starts_with("^]")) return std::nullopt;
      out += text.substr(i, close - i + 1), i = close;
    } else if (c == '*' || c == '^' || c == '$' || (extended && std::string_view("+?{}()|").find(c) != text.npos)) {
      return std::nullopt;
    } else {
      add_literal(out, c);
    }
    const char behind = i + 1 < text.size() ? text[i + 1] : '\0';
    if (behind == '*' || (extended && behind != '\0' && kRepeats.find(behind) != std::string_view::npos))
      return std::nullopt;
  }
  if (!to_end && !whole) out += '*';
  return out;
}

/// The alternatives that `|`, in basic expressions `\|`, is between.
std::vector<std::string> alternatives(std::string_view pattern, bool extended) {
  std::vector<std::string> out(1);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool escaped = pattern[i] == '\\' && i + 1 < pattern.size();
    const char c = escaped ? pattern[i + 1] : pattern[i];
    if (c == '|' && escaped != extended) {
      out.emplace_back();
    } else {
      if (escaped) out.back() += '\\';
      out.back() += c;
    }
    i += escaped ? 1 : 0;
  }
  return out;
}

/// What grep was asked, as far as its flags are read here.
struct Search {
  std::string pattern{};
  bool stated = false, extended = false, fixed = false, whole = false, inverts = false, any_case = false;
};

/// Nothing where a flag is not read here, or where it reads files.
std::optional<Search> search_of(const std::vector<Text>& words) {
  const std::string& name = words.front().chars;
  Search out{.extended = name == "egrep", .fixed = name == "fgrep"};
  if (name != "grep" && name != "egrep" && name != "fgrep") return std::nullopt;
  bool flags = true;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].chars;
    if (is_open(word) && !(out.stated || word.ends_with('$'))) return std::nullopt;
    if (flags && word == "--") {
      flags = false;
    } else if (flags && word.size() > 1 && word.front() == '-') {
      if (word.find_first_not_of("qsinocEFGxve", 1) != std::string::npos) return std::nullopt;
      const auto has = [&](char c) { return word.find(c) != std::string::npos; };
      out.extended |= has('E'), out.fixed |= has('F'), out.whole |= has('x');
      out.inverts |= has('v'), out.any_case |= has('i');
      if (has('e') && (!word.ends_with('e') || ++i >= words.size() || out.stated)) return std::nullopt;
      if (has('e')) out.pattern = words[i].chars, out.stated = true;
    } else if (!out.stated) {
      out.pattern = word, out.stated = true;
    } else {
      return std::nullopt;
    }
  }
  return out.stated ? std::optional(out) : std::nullopt;
}

}  // namespace

std::optional<bool> finds(std::string_view pattern, std::string_view line, bool extended, bool whole) {
  if (pattern.size() > kMostSearched || line.size() > kMostSearched) return std::nullopt;
  const bool plain = std::all_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  bool found = false;
  for (const std::string& one : alternatives(pattern, extended)) {
    const std::optional<std::string> glob = glob_of(one, extended, whole);
    if (!glob || (!plain && glob->find_first_of("?[") != std::string::npos)) return std::nullopt;
    found |= matches(*glob, line);
  }
  return found;
}

void Follower::keep_printed(const std::vector<Text>& words) {
  std::size_t first = 1;
  bool escapes = false;
  for (; first < words.size() && (words[first].chars == "-n" || words[first].chars == "-e"); ++first)
    escapes |= words[first].chars == "-e";
  std::string text = joined_words(words, first).chars;
  if (!escapes || text.find('\\') == std::string::npos) printed_ = std::move(text);
}

Truth Follower::searched(const std::vector<Text>& words) const {
  const std::optional<Search> search = input_ ? search_of(words) : std::nullopt;
  if (!search || is_open(*input_)) return Truth::Unknown;
  const std::string pattern = search->any_case ? lowered(search->pattern) : search->pattern;
  std::string text = search->any_case ? lowered(*input_) : *input_;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    std::optional<bool> found{};
    if (search->fixed)
      found = search->whole ? line == pattern : line.find(pattern) != std::string_view::npos;
    else
      found = finds(pattern, line, search->extended, search->whole);
    if (!found) return Truth::Unknown;
    if (*found != search->inverts) return Truth::Yes;
    at = end + 1;
  }
  return Truth::No;
}

bool denies(const std::vector<Token>& words) {
  constexpr std::string_view kBefore[] = {"elif", "then", "do", "else", "time"};
  constexpr std::string_view kOpens[] = {"{", "if", "while", "until", "case", "for", "select"};
  const auto among = [](std::string_view word, const auto& all) {
    return std::find(std::begin(all), std::end(all), word) != std::end(all);
  };
  bool out = false;
  for (const Token& word : words) {
    if (word.raw.chars == "!")
      out = !out;
    else if (among(word.raw.chars, kOpens))
      out = false;
    else if (!among(word.raw.chars, kBefore))
      break;
  }
  return out;
}

}  // namespace plan::shell
