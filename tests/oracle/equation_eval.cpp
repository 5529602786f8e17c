#include "tests/oracle/equation_eval.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace plan::oracle {
namespace {

/// By bisection of the error function, which is what makes it obvious.
double probit(double probability) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Not a number beyond the range of a double, rather than an infinity that a quotient would turn into 0.
double choose(double n, double k) {
  double ways = 1;
  for (double i = 1; i <= k; ++i) ways = ways * (n - k + i) / i;
  return std::isfinite(ways) ? ways : std::nan("");
}

class Parser {
 public:
  Parser(std::string_view text, const Lookup& lookup) : text_(text), lookup_(lookup) {}

  double run() {
    const double value = sum();
    if (peek() != '\0') fail("unexpected '" + std::string(1, peek()) + "'");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw EquationError(what + " at " + std::to_string(at_) + " in '" + std::string(text_) + "'");
  }

  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }

  double sum() {
    double value = product();
    for (;;) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        return value;
    }
  }
  /// As the functions do, by IEEE 754: what is divided by zero is infinite.
  __attribute__((no_sanitize("float-divide-by-zero"))) double product() {
    double value = signed_power();
    for (;;) {
      if (take('*'))
        value *= signed_power();
      else if (take('/'))
        value /= signed_power();
      else
        return value;
    }
  }
  double signed_power() { return take('-') ? -signed_power() : power(); }
  double power() {
    const double base = atom();
    return take('^') ? std::pow(base, signed_power()) : base;  // right-associative
  }
  double atom() {
    if (take('(')) {
      const double value = sum();
      expect(')');
      return value;
    }
    const char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.') return literal();
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) return name();
    fail("expected a number, a symbol or '('");
  }
  double literal() {
    const std::string rest(text_.substr(at_));
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    at_ += static_cast<std::size_t>(end - rest.c_str());
    return value;
  }
  double name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    return peek() == '(' ? call(word) : lookup_(word);
  }
  double call(std::string_view function) {
    expect('(');
    std::vector<double> arguments{sum()};
    while (take(',')) arguments.push_back(sum());
    expect(')');
    const bool two = arguments.size() == 2;
    if (two && function == "min") return std::min(arguments[0], arguments[1]);
    if (two && function == "max") return std::max(arguments[0], arguments[1]);
    if (two && function == "choose") return choose(arguments[0], arguments[1]);
    if (arguments.size() != 1) fail("wrong number of arguments");
    const double x = arguments[0];
    if (function == "ceil") return std::ceil(x);
    if (function == "floor") return std::floor(x);
    if (function == "log2") return std::log2(x);
    if (function == "sqrt") return std::sqrt(x);
    if (function == "ln") return std::log(x);
    if (function == "exp") return std::exp(x);
    if (function == "probit") return probit(x);
    fail("no function '" + std::string(function) + "'");
  }

  std::string_view text_;
  const Lookup& lookup_;
  std::size_t at_ = 0;
};

}  // namespace

double evaluate_equation(std::string_view text, const Lookup& lookup) { return Parser(text, lookup).run(); }

}  // namespace plan::oracle
