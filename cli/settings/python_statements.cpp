// Tested by tests/launch/python_recipes_test.cpp.
#include "cli/settings/python_statements.hpp"

#include <algorithm>
#include <cctype>

#include "formulas/text.hpp"

namespace plan::python {
namespace {

/// Reads characters one by one and ends a statement where Python does.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  void run() {
    for (; at_ < text_.size(); ++at_) {
      ++column_;
      if (quote_ != 0)
        inside_quote();
      else
        outside();
    }
    end();
  }
  [[nodiscard]] bool open() const { return depth_ > 0; }
  [[nodiscard]] const Statement& now() const { return now_; }
  std::vector<Statement> statements{};

 private:
  char next(std::size_t by) const { return at_ + by < text_.size() ? text_[at_ + by] : '\0'; }
  void new_line() { ++line_, column_ = 0; }

  void inside_quote() {
    const char c = text_[at_];
    if (c == '\n') {
      new_line();
      if (!triple_) quote_ = 0;  // Python would refuse it: the rest of the file is read all the same
      now_.text.push_back(' ');
      return;
    }
    now_.text.push_back(c);
    if (c == '\\' && next(1) != '\n' && next(1) != '\0') return now_.text.push_back(text_[++at_]);
    if (c != quote_) return;
    if (!triple_) {
      quote_ = 0;
    } else if (next(1) == quote_ && next(2) == quote_) {
      now_.text.append(2, quote_);
      at_ += 2, quote_ = 0;
    }
  }

  void outside() {
    const char c = text_[at_];
    if (c == '#') {
      while (next(1) != '\n' && next(1) != '\0') ++at_;
    } else if (c == '\\' && next(1) == '\n') {
      ++at_, new_line();
      now_.text.push_back(' ');
    } else if (c == '\n') {
      if (depth_ == 0) end();
      if (depth_ > 0) now_.text.push_back(' ');
      new_line(), indent_ = 0, at_start_ = true;
    } else if (c == ';' && depth_ == 0) {
      end();
    } else if (now_.text.empty() && (c == ' ' || c == '\t' || c == '\r')) {
      if (at_start_) indent_ += c == '\t' ? 8 : 1;
    } else {
      take(c);
    }
  }

  void take(char c) {
    at_start_ = false;
    if (now_.text.empty()) now_.line = line_, now_.column = column_, now_.indent = indent_;
    if (c == '"' || c == '\'') {
      quote_ = c, triple_ = next(1) == c && next(2) == c;
      if (triple_) now_.text.append(2, c), at_ += 2;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth_;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth_;
    }
    now_.text.push_back(c);
    if (c == ':' && depth_ == 0 && opens_block()) end(), ++indent_;
  }

  /// `if ready:`, whose body may be on the same line.
  [[nodiscard]] bool opens_block() const {
    for (const std::string_view word :
         {"if", "elif", "else", "for", "while", "with", "try", "except", "finally", "def", "class", "match", "async"})
      if (now_.text.starts_with(word) && now_.text.size() > word.size() &&
          std::string_view(" (:").find(now_.text[word.size()]) != std::string_view::npos)
        return true;
    return false;
  }

  void end() {
    if (depth_ > 0) return;
    depth_ = 0;
    const std::string_view text = trim(now_.text, kWhiteSpace);
    if (!text.empty()) now_.text = std::string(text), statements.push_back(now_);
    now_ = {};
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Statement now_{};
  int line_ = 1, column_ = 0, indent_ = 0, depth_ = 0;
  char quote_ = 0;
  bool triple_ = false, at_start_ = true;
};

/// Calls `at(index)` for each character outside of brackets and quotes.
void outside_brackets(std::string_view text, const auto& at) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    } else if (depth == 0) {
      at(i);
    }
  }
}

std::vector<std::string_view> cut(std::string_view text, const std::vector<std::size_t>& cuts) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  for (const std::size_t at : cuts) parts.push_back(trim(text.substr(start, at - start), kWhiteSpace)), start = at + 1;
  if (const std::string_view last = trim(text.substr(start), kWhiteSpace); !last.empty()) parts.push_back(last);
  return parts;
}

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

}  // namespace

Result<std::vector<Statement>> statements_of(const LaunchSource& source) {
  Splitter split(source.text);
  split.run();
  if (split.open())
    return fail({"bad_python",
                 "a bracket is opened here and never closed",
                 {},
                 {},
                 place_in(source, split.now().line, split.now().column)});
  return std::move(split.statements);
}

std::vector<std::string_view> split_outside(std::string_view text, char separator) {
  std::vector<std::size_t> cuts;
  outside_brackets(text, [&](std::size_t at) {
    if (text[at] == separator) cuts.push_back(at);
  });
  return cut(text, cuts);
}

std::vector<std::string_view> split_assignment(std::string_view text) {
  std::vector<std::size_t> cuts;
  outside_brackets(text, [&](std::size_t at) {
    if (text[at] != '=') return;
    const char before = at > 0 ? text[at - 1] : ' ', behind = at + 1 < text.size() ? text[at + 1] : ' ';
    if (behind != '=' && before != '=' && before != '!' && before != '<' && before != '>' && before != ':')
      cuts.push_back(at);
  });
  return cut(text, cuts);
}

std::vector<std::string_view> names_in(std::string_view text) {
  std::vector<std::string_view> out;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (in_name(c)) {
      const std::size_t start = i;
      while (i + 1 < text.size() && in_name(text[i + 1])) ++i;
      out.push_back(text.substr(start, i + 1 - start));
    }
  }
  return out;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(), in_name);
}

std::string with_shell_signs(std::string_view sum) {
  std::string out;
  if (sum.find_first_of("\"'[{?:<>=!&|,$") != std::string_view::npos) return out;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (sum[i] == '_' && i > 0 && std::isdigit(static_cast<unsigned char>(sum[i - 1])) != 0) continue;
    if (sum[i] == '/' && (i + 1 >= sum.size() || sum[++i] != '/')) return {};  // a fraction
    out.push_back(sum[i]);
  }
  return out;
}

bool is_call(std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos || !is_name(text.substr(0, open))) return false;
  bool behind = false;  // anything outside of brackets behind the name
  outside_brackets(text.substr(open), [&](std::size_t) { behind = true; });
  return !behind && text.ends_with(')') &&
         split_outside(text.substr(open + 1, text.size() - open - 2), ')').size() <= 1;
}

std::string_view arguments_of(std::string_view call) {
  const std::size_t open = call.find('(');
  return call.substr(open + 1, call.size() - open - 2);
}

bool is_quoted(std::string_view text) {
  if (text.size() < 2 || (text.front() != '"' && text.front() != '\'') || text.back() != text.front()) return false;
  return text.find(text.front(), 1) == text.size() - 1;
}

}  // namespace plan::python
