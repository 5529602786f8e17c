// What an expansion does to text that it found: ${V#prefix}, ${V%suffix}, ${V/old/new}, ${V^^}, patterns,
// here-documents. Tested by tests/launch/shell_test.cpp.
#include <algorithm>
#include <cctype>

#include "cli/launch/shell_text.hpp"

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

/// `old/new`, once or everywhere as far as the budget goes. False for a pattern that is more than text.
bool replace(Text& item, const std::string& change, bool everywhere, Scope& scope) {
  const std::size_t slash = change.find('/');
  const std::string old = change.substr(0, slash);
  const std::string fresh = slash == std::string::npos ? "" : change.substr(slash + 1);
  if (old.empty() || old.find('*') != std::string::npos) return false;
  Text out;
  std::size_t from = 0;
  for (std::size_t at = item.chars.find(old); at != std::string::npos; at = item.chars.find(old, from)) {
    if (!scope.spend(at - from + fresh.size())) break;
    out.add(item.part(from, at - from));
    out.add(fresh, item.lines[at]);
    from = at + old.size();
    if (!everywhere) break;
  }
  out.add(item.part(from));
  item = std::move(out);
  return true;
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
  return op[0] == '/' && replace(item, argument, twice, scope);
}

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == text[t]))) {
      ++p, ++t;
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
