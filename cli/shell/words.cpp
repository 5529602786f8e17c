// A script cut into words and operators. Tested by tests/launch/shell_test.cpp.
#include "cli/shell/words.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "formulas/text.hpp"

namespace plan::shell {
namespace {

constexpr std::size_t kMostWords = 200;  // of one test

/// Index behind a template's place to be filled in, `<PATH TO CKPT>`, whose `<` is at `at`; `at` where there is none.
/// Bash takes both signs for redirections, which nobody means: those have a blank before `>`, as in `<in > out`, or a
/// file right behind it.
std::size_t behind_template(std::string_view text, std::size_t at) {
  constexpr std::string_view kInside = "_ -.,:/'";
  if (at + 1 >= text.size() || text[at] != '<' || std::isalpha(static_cast<unsigned char>(text[at + 1])) == 0)
    return at;
  std::size_t end = at + 1;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 ||
                               kInside.find(text[end]) != std::string_view::npos))
    ++end;
  if (end >= text.size() || text[end] != '>' || text[end - 1] == ' ') return at;
  const std::string_view rest = text.substr(end + 1);
  const bool filled_in = rest.empty() ||
                         std::string_view(" \t\r\n;)\\\"'").find(rest.front()) != std::string_view::npos ||
                         (rest.front() == '/' && !rest.starts_with("/dev/"));
  return filled_in ? end + 1 : at;
}

/// Index behind the here-document whose `<<` is at `at`; `at` where there is none, as in `1 << 3`.
std::size_t behind_document(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) != "<<" || text.substr(at, 3) == "<<<") return at;
  std::size_t first = at + 2;
  while (first < text.size() && (text[first] == '-' || text[first] == ' ')) ++first;
  std::string end;
  for (; first < text.size() && std::isspace(static_cast<unsigned char>(text[first])) == 0; ++first) {
    if (std::string_view("|;)>").find(text[first]) != std::string_view::npos) break;
    if (std::string_view("'\"\\").find(text[first]) == std::string_view::npos) end.push_back(text[first]);
  }
  for (std::size_t line = text.find('\n', first); !end.empty() && line < text.size();) {
    const std::size_t start = std::min(text.find_first_not_of('\t', line + 1), text.size());
    const std::size_t stop = std::min(text.find('\n', start), text.size());
    if (text.substr(start, stop - start) == end) return stop;
    line = stop;
  }
  return at;
}

class Lexer {
 public:
  Lexer(const Text& text, bool newlines_are_blanks) : text_(text), blanks_(newlines_are_blanks) {}

  std::vector<Token> run() {
    while (at_ < text_.chars.size()) step();
    finish();
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.chars.size() ? text_.chars[at_ + ahead] : '\0'; }
  void keep() {
    if (word_.chars.empty()) line_ = text_.lines[at_];
    word_.add(text_.chars[at_], text_.lines[at_]);
    ++at_;
  }
  void finish() {
    if (word_.chars.empty()) return;
    if (next_ != Redirection::None) {
      tokens_.push_back({std::move(word_), line_, true, next_});
    } else if (!drop_next_) {
      const bool in_of_case = word_.chars == "in" && case_words_ == 2;
      case_words_ = word_.chars == "case" && starts_command() ? 1 : case_words_ > 0 ? case_words_ + 1 : 0;
      if (word_.chars == "[[") in_test_ = true;
      if (word_.chars == "]]") in_test_ = false;
      tokens_.push_back({std::move(word_), line_, !in_of_case});
      if (in_of_case) case_words_ = 0;
    }
    drop_next_ = false;
    next_ = Redirection::None;
    word_ = {};
  }
  bool starts_command() const {
    constexpr std::string_view kBefore[] = {"if", "elif", "while", "until", "do", "then", "else", "{", "!"};
    return tokens_.empty() || !tokens_.back().word ||
           std::find(std::begin(kBefore), std::end(kBefore), tokens_.back().raw.chars) != std::end(kBefore);
  }
  void symbol(std::size_t size) {
    finish();
    Text raw = text_.part(at_, size);
    const int line = raw.line();
    if (raw.chars == "\n") case_words_ = 0, in_test_ = false;
    tokens_.push_back({std::move(raw), line, false});
    at_ += size;
  }

  void step() {
    const char c = peek();
    if (c == '\\' && peek(1) == '\n') {
      at_ += 2;
      if (word_.chars.empty()) return;
      return;  // the word goes on in the next line
    }
    if (c == '\\' && peek(1) != '\0') return keep(), keep();
    if (c == '\'' || c == '"' || c == '`') return quoted(c);
    if (c == '$' && opens(peek(1))) return expansion();
    if (c == '#' && word_.chars.empty()) return comment();
    if (c == '\n' && !blanks_) {
      symbol(1);
      return here_documents();
    }
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      finish();
      ++at_;
      return;
    }
    if (blanks_) return keep();
    operators(c);
  }

  void operators(char c) {
    if (in_test_ && word_.chars == "]]") finish();
    if (in_test_) return keep();
    const char next = peek(1);
    if (c == '(' && word_.chars.ends_with('=')) return bracket('(', ')');  // an array
    if (c == '(' && next == '(' && word_.chars.empty()) return bracket('(', ')');
    if (const std::size_t behind = behind_template(text_.chars, at_); behind > at_) {
      while (at_ < behind) keep();
      return;
    }
    if (c == '<' || c == '>') return redirection();
    if (c == '&' && next == '>') return ++at_, redirection();
    if ((c == '&' && next == '&') || (c == '|' && next == '|') || (c == ';' && next == ';')) return symbol(2);
    if (c == '|' && next == '&') return symbol(1), static_cast<void>(++at_);  // errors go into the pipe, too
    if (c == ';' || c == '&' || c == '|' || c == '(' || c == ')') return symbol(1);
    keep();
  }

  void quoted(char quote) {
    keep();
    while (at_ < text_.chars.size() && peek() != quote) {
      if (peek() == '\\' && quote != '\'' && peek(1) != '\0') keep();
      if (quote == '"' && peek() == '$' && opens(peek(1))) {
        expansion();
        continue;
      }
      keep();
    }
    if (at_ < text_.chars.size()) keep();
  }

  /// What follows `$` where more than a name does: `$(`, `${`, and `$[`, bash's older word for `$((`.
  static bool opens(char c) { return c == '(' || c == '{' || c == '['; }
  void expansion() {
    keep();
    bracket(peek(), peek() == '(' ? ')' : peek() == '{' ? '}' : ']');
  }

  void bracket(char left, char right) {
    int depth = 0;
    char quote = 0;
    while (at_ < text_.chars.size()) {
      const char c = peek();
      if (c == '\\' && peek(1) != '\0' && quote != '\'') {
        keep();
      } else if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (const std::size_t behind = left == '(' ? behind_document(text_.chars, at_) : at_; behind > at_) {
        while (at_ < behind) keep();
        continue;
      } else if (c == '#' && left == '(' && at_ > 0 && std::isspace(static_cast<unsigned char>(text_.chars[at_ - 1]))) {
        comment();
        continue;
      } else if (c == left) {
        ++depth;
      } else if (c == right && --depth == 0) {
        return keep();
      }
      keep();
    }
  }

  void comment() {
    while (at_ < text_.chars.size() && peek() != '\n') ++at_;
  }

  /// `> file`, `2>&1`, `<<EOF`: no words of the command.
  void redirection() {
    const bool number = !word_.chars.empty() && word_.chars.find_first_not_of("0123456789") == std::string::npos;
    const bool output = peek() == '>' && peek(1) != '&' && peek(1) != '(' && (!number || word_.chars == "1");
    const bool appends = peek(1) == '>';
    if (number) word_ = {};
    finish();
    if (peek() == '<' && peek(1) == '<' && peek(2) != '<') return here_document();
    while (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|') ++at_;
    drop_next_ = peek() != '(';
    if (output) next_ = appends ? Redirection::Onto : Redirection::Into;
  }

  /// `<<EOF`, `<<-'EOF'`: its text begins in the next line, and its token waits for it.
  void here_document() {
    HereDocument here{tokens_.size(), {}, peek(2) == '-'};
    at_ += here.tabs ? 3 : 2;
    while (peek() == ' ') ++at_;
    bool literal = false;
    while (at_ < text_.chars.size() && std::isspace(static_cast<unsigned char>(peek())) == 0 && peek() != ';' &&
           peek() != '|' && peek() != ')' && peek() != '>') {
      const bool quote = peek() == '\'' || peek() == '"' || peek() == '\\';
      if (!quote) here.end.push_back(peek());
      literal |= quote;
      ++at_;
    }
    tokens_.push_back({{}, 0, true, literal ? Redirection::Literal : Redirection::Here});
    here_.push_back(std::move(here));
  }

  void here_documents() {
    for (const HereDocument& here : here_) {
      Token& token = tokens_[here.token];
      token.line = at_ < text_.lines.size() ? text_.lines[at_] : 0;
      while (at_ < text_.chars.size()) {
        const std::size_t stop = std::min(text_.chars.find('\n', at_), text_.chars.size());
        const std::size_t next = std::min(stop + 1, text_.chars.size());
        const std::size_t line = at_;
        std::size_t first = line;
        while (first < stop && text_.chars[first] == '\t') ++first;
        at_ = next;
        if (std::string_view(text_.chars).substr(first, stop - first) == here.end) break;
        const std::size_t from = here.tabs ? first : line;
        token.raw.add(text_.part(from, next - from));
      }
    }
    here_.clear();
  }

  struct HereDocument {
    std::size_t token = 0;  ///< index of the one that takes the text
    std::string end{};
    bool tabs = false;  ///< `<<-`: tabs before a line are no part of it
  };

  const Text& text_;
  bool blanks_;
  std::size_t at_ = 0;
  Text word_{};
  int line_ = 0;
  int case_words_ = 0;    ///< words since `case`: its `in` is an operator
  bool in_test_ = false;  ///< between [[ and ]]
  bool drop_next_ = false;
  Redirection next_ = Redirection::None;  ///< what the next word is to the command
  std::vector<HereDocument> here_{};
  std::vector<Token> tokens_{};
};

std::optional<bool> primary(const std::vector<std::string>& words) {
  if (words.size() == 1) return !words[0].empty();
  if (words.size() == 2 && words[0] == "-z") return words[1].empty();
  if (words.size() == 2 && words[0] == "-n") return !words[1].empty();
  if (words.size() != 3) return std::nullopt;
  const std::string& op = words[1];
  if (op == "=" || op == "==") return matches(words[2], words[0]);
  if (op == "!=") return !matches(words[2], words[0]);
  if (op == "=~") return finds(words[2], words[0], true);
  const std::optional<long long> left = as_number<long long>(words[0]), right = as_number<long long>(words[2]);
  if (!left || !right) return std::nullopt;
  if (op == "-eq") return *left == *right;
  if (op == "-ne") return *left != *right;
  if (op == "-lt") return *left < *right;
  if (op == "-le") return *left <= *right;
  if (op == "-gt") return *left > *right;
  if (op == "-ge") return *left >= *right;
  return std::nullopt;
}

}  // namespace

std::size_t closing(std::string_view text, std::size_t open, char left, char right) {
  int depth = 0;
  char quote = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (const std::size_t behind = left == '(' ? behind_document(text, i) : i; behind > i) {
      i = behind - 1;
    } else if (c == left) {
      ++depth;
    } else if (c == right && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::vector<Token> tokens(std::string_view text, int first_line) {
  Text with_lines;
  int line = first_line;
  for (const char c : text) {
    if (c == '\r') continue;
    with_lines.add(c, line);
    if (c == '\n') ++line;
  }
  return Lexer(with_lines, false).run();
}

std::vector<Token> tokens(const Text& text) { return Lexer(text, false).run(); }

std::vector<Token> without_redirections(std::vector<Token> tokens) {
  std::erase_if(tokens, [](const Token& token) { return token.redirection != Redirection::None; });
  return tokens;
}

std::vector<Token> words_of(const Text& text) { return Lexer(text, true).run(); }

// A side of `||` at a time, as deep as there are words.
// NOLINTNEXTLINE(misc-no-recursion)
std::optional<bool> compare(const std::vector<std::string>& words) {
  if (words.size() > kMostWords) return std::nullopt;
  for (const char* op : {"||", "&&"})
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      if (words[i] != op) continue;
      const std::optional<bool> left = compare({words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i)});
      const std::optional<bool> right = compare({words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()});
      if (!left || !right) return std::nullopt;
      return op[0] == '|' ? (*left || *right) : (*left && *right);
    }
  if (!words.empty() && words[0] == "!") {
    const std::optional<bool> inner = compare({words.begin() + 1, words.end()});
    return inner ? std::optional<bool>(!*inner) : std::nullopt;
  }
  return primary(words);
}

}  // namespace plan::shell
