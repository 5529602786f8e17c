// `$(( NODES * GPUS ))`: integers, names, + - * / % ( ), comparisons, && || ! and ? : with C's precedence. Tested by
// tests/launch/shell_test.cpp.
#include <cctype>
#include <charconv>

#include "cli/shell/text.hpp"
#include "formulas/text.hpp"

namespace plan::shell {
namespace {

constexpr int kDeepest = 64;       // names that stand for names, and parentheses
constexpr int kMostTerms = 10000;  // of one expression, names followed

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const Scope& scope, int depth, int& budget)
      : text_(text), scope_(scope), depth_(depth), budget_(budget) {}

  std::optional<long long> whole() {
    const std::optional<long long> value = choice();
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Number = std::optional<long long>;

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  /// `a ? b : c`. What is not chosen need not be known.
  Number choice() {
    const Number condition = either();
    if (!take("?")) return condition;
    const Number yes = choice();
    if (!take(":")) return std::nullopt;
    const Number no = choice();
    return !condition ? std::nullopt : *condition != 0 ? yes : no;
  }

  Number either() {
    Number left = all();
    while (take("||")) left = both(left, all(), [](long long a, long long b) { return a != 0 || b != 0 ? 1ll : 0ll; });
    return left;
  }

  Number all() {
    Number left = equality();
    while (take("&&"))
      left = both(left, equality(), [](long long a, long long b) { return a != 0 && b != 0 ? 1ll : 0ll; });
    return left;
  }

  Number equality() {
    Number left = comparison();
    for (;;) {
      if (take("=="))
        left = both(left, comparison(), [](long long a, long long b) { return a == b ? 1ll : 0ll; });
      else if (take("!="))
        left = both(left, comparison(), [](long long a, long long b) { return a != b ? 1ll : 0ll; });
      else
        return left;
    }
  }

  Number comparison() {
    Number left = sum();
    for (;;) {
      if (take("<="))
        left = both(left, sum(), [](long long a, long long b) { return a <= b ? 1ll : 0ll; });
      else if (take(">="))
        left = both(left, sum(), [](long long a, long long b) { return a >= b ? 1ll : 0ll; });
      else if (take("<"))
        left = both(left, sum(), [](long long a, long long b) { return a < b ? 1ll : 0ll; });
      else if (take(">"))
        left = both(left, sum(), [](long long a, long long b) { return a > b ? 1ll : 0ll; });
      else
        return left;
    }
  }

  template <class F>
  static Number both(Number left, Number right, F f) {
    if (!left || !right) return std::nullopt;
    return f(*left, *right);
  }

  Number sum() {
    Number left = product();
    for (;;) {
      if (take("+"))
        left = checked(left, product(), '+');
      else if (take("-"))
        left = checked(left, product(), '-');
      else
        return left;
    }
  }

  Number product() {
    Number left = primary();
    for (;;) {
      if (take("*"))
        left = checked(left, primary(), '*');
      else if (take("/"))
        left = checked(left, primary(), '/');
      else if (take("%"))
        left = checked(left, primary(), '%');
      else
        return left;
    }
  }

  /// Nothing on overflow and on division by zero.
  static Number checked(Number left, Number right, char op) {
    if (!left || !right) return std::nullopt;
    long long out = 0;
    const bool overflow = op == '+'      ? __builtin_add_overflow(*left, *right, &out)
                          : op == '-'    ? __builtin_sub_overflow(*left, *right, &out)
                          : op == '*'    ? __builtin_mul_overflow(*left, *right, &out)
                          : *right == 0  ? true
                          : *right == -1 ? __builtin_sub_overflow(0LL, *left, &out)
                                         : false;
    if (overflow) return std::nullopt;
    if (op == '/' && *right != -1) out = *left / *right;
    if (op == '%') out = *right == -1 ? 0 : *left % *right;
    return out;
  }

  Number primary() {
    if (depth_ > kDeepest || --budget_ < 0) return std::nullopt;
    skip();
    if (take("(")) {
      ++depth_;
      const Number inner = choice();
      --depth_;
      return take(")") ? inner : std::nullopt;
    }
    if (take("-")) {
      ++depth_;
      const Number negated = checked(0, primary(), '-');
      --depth_;
      return negated;
    }
    if (take("!")) {
      ++depth_;
      const Number denied = primary();
      --depth_;
      return denied ? Number(*denied == 0 ? 1 : 0) : std::nullopt;
    }
    const bool dollar = take("$");
    const bool braces = dollar && take("{");
    const std::size_t from = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string_view word = text_.substr(from, at_ - from);
    if (braces && !take("}")) return std::nullopt;
    if (word.empty()) return std::nullopt;
    return std::isdigit(static_cast<unsigned char>(word[0])) != 0 && !dollar ? as_number<long long>(word)
                                                                             : variable(word);
  }

  Number variable(std::string_view name) const {
    const auto found = scope_.variables.find(std::string(name));
    if (found == scope_.variables.end() || found->second.items.empty()) return std::nullopt;
    return Arithmetic(found->second.items.front().chars, scope_, depth_ + 1, budget_).whole();
  }

  std::string_view text_;
  const Scope& scope_;
  int depth_;
  int& budget_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<long long> arithmetic(std::string_view text, const Scope& scope) {
  int budget = kMostTerms;
  return Arithmetic(text, scope, 0, budget).whole();
}

}  // namespace plan::shell
