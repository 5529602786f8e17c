// What an expansion does to text that it found: ${V#prefix}, ${V%suffix}, ${V/old/new}, ${V^^}, patterns,
// here-documents. Tested by tests/launch/shell_test.cpp.
#include <algorithm>
#include <cctype>
#include <optional>

#include "cli/shell/text.hpp"

namespace plan::shell {
namespace {

/// Drops the shortest (or longest) end that matches.
void trim(Text& item, std::string_view pattern, bool back, bool longest, Scope& scope) {
  const std::size_t size = item.chars.size();
  for (std::size_t i = 0; i <= size; ++i) {
    const std::size_t length = longest ? size - i : i;
    if (!scope.spend(length + pattern.size())) return;
    const std::string_view text = item.chars;
    if (!matches(pattern, back ? text.substr(size - length) : text.substr(0, length))) continue;
    item = back ? item.part(0, size - length) : item.part(length);
    return;
  }
}

void change_case(Text& item, bool upper, bool whole) {
  for (std::size_t i = 0; i < item.chars.size() && (whole || i == 0); ++i) {
    const unsigned char c = static_cast<unsigned char>(item.chars[i]);
    item.chars[i] = static_cast<char>(upper ? std::toupper(c) : std::tolower(c));
  }
}

/// The longest beginning of `text` that matches; none where not even the empty one does.
std::optional<std::size_t> longest_match(std::string_view pattern, std::string_view text, Scope& scope) {
  for (std::size_t length = text.size() + 1; length-- > 0;) {
    if (!scope.spend(length + pattern.size())) return std::nullopt;
    if (matches(pattern, text.substr(0, length))) return length;
  }
  return std::nullopt;
}

/// `old/new`, once or everywhere as far as the budget goes; `#old` at the beginning alone, `%old` at the end.
void replace(Text& item, std::string_view change, bool everywhere, Scope& scope) {
  const char anchor = !everywhere && !change.empty() && (change[0] == '#' || change[0] == '%') ? change[0] : '\0';
  if (anchor != '\0') change.remove_prefix(1);
  const std::size_t slash = change.find('/');
  const std::string_view old = change.substr(0, slash);
  const std::string fresh(slash == std::string_view::npos ? "" : change.substr(slash + 1));
  if (old.empty() && anchor == '\0') return;
  const std::string_view text = item.chars;
  const int line = item.lines.empty() ? 0 : item.lines.front();
  Text out;
  std::size_t kept = 0;  // up to here all is in `out`
  for (std::size_t at = 0; at <= text.size() && (at == 0 || anchor != '#');) {
    const std::optional<std::size_t> length = longest_match(old, text.substr(at), scope);
    if (!length || (*length == 0 && anchor == '\0') || (anchor == '%' && at + *length != text.size())) {
      ++at;
      continue;
    }
    out.add(item.part(kept, at - kept));
    out.add(fresh, at < item.lines.size() ? item.lines[at] : line);
    kept = at += *length;
    if (!everywhere) break;
  }
  out.add(item.part(kept));
  item = std::move(out);
}

/// Does one character match the beginning of `pattern`: itself, `?` or `[a-k]`? Then `length` is how
/// much of the pattern that was. A bracket that nothing closes is itself.
bool matches_one(std::string_view pattern, char c, std::size_t& length) {
  length = 1;
  if (pattern.empty() || pattern[0] == '*') return false;
  if (pattern[0] == '?') return true;
  const bool other = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
  const std::size_t first = other ? 2 : 1;
  const std::size_t close = pattern[0] == '[' ? pattern.find(']', first + 1) : std::string_view::npos;
  if (close == std::string_view::npos) return pattern[0] == c;
  length = close + 1;
  bool found = false;
  for (std::size_t i = first; i < close; ++i) {
    const bool range = i + 2 < close && pattern[i + 1] == '-';
    found = found || (pattern[i] <= c && c <= pattern[range ? i + 2 : i]);
    if (range) i += 2;
  }
  return found != other;
}

}  // namespace

Text Text::part(std::size_t from, std::size_t count) const {
  Text out;
  from = std::min(from, chars.size());
  out.chars = chars.substr(from, count);
  out.lines.assign(lines.begin() + static_cast<std::ptrdiff_t>(from),
                   lines.begin() + static_cast<std::ptrdiff_t>(from + out.chars.size()));
  return out;
}

bool edit(Text& item, const Text& operation, Scope& scope) {
  const std::string_view op = operation.chars;
  const bool twice = op.size() > 1 && op[0] == op[1];
  if (op[0] == '^' || op[0] == ',') return change_case(item, op[0] == '^', twice), true;
  const std::string argument = expand_one(operation.part(twice ? 2 : 1), scope).chars;
  if (op[0] == '%' || op[0] == '#') return trim(item, argument, op[0] == '%', twice, scope), true;
  if (op[0] == '/') replace(item, argument, twice, scope);
  return op[0] == '/';
}

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    std::size_t length = 0;
    if (p < pattern.size() && matches_one(pattern.substr(p), text[t], length)) {
      p += length, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++, mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1, t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Text expand_document(const Text& raw, Scope& scope) {
  Text quoted;
  quoted.add('"', raw.line());
  for (std::size_t i = 0; i < raw.chars.size(); ++i) {
    const char c = raw.chars[i], next = i + 1 < raw.chars.size() ? raw.chars[i + 1] : '\0';
    const bool escapes = c == '\\' && (next == '$' || next == '`' || next == '\\' || next == '\n');
    if (!escapes && (c == '"' || c == '\\')) quoted.add('\\', raw.lines[i]);
    quoted.add(c, raw.lines[i]);
    if (escapes) ++i, quoted.add(next, raw.lines[i]);
  }
  quoted.add('"', raw.line());
  return expand_one(quoted, scope);
}

}  // namespace plan::shell
