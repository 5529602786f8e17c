// Numbers that carry their equation. Tested by tests/formulas/traced_test.cpp, which evaluates the text.
#include "formulas/traced.hpp"

#include <charconv>

namespace plan {
namespace {

/// Shortest digits that read back as the same number: "2", "1.03125".
std::string digits(double value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

}  // namespace

Traced::Traced(double literal) : value_(literal), text_(digits(literal)) {}
Traced::Traced(const TracedSymbol& symbol) : value_(symbol.value), text_(symbol.name), symbols_{symbol} {}

std::string Traced::bracketed(Binding needed) const { return binding_ < needed ? "(" + text_ + ")" : text_; }

Traced& Traced::with_symbols_of(const Traced& other) {
  for (const TracedSymbol& symbol : other.symbols_) {
    const auto same = [&](const TracedSymbol& known) { return known.name == symbol.name; };
    if (std::none_of(symbols_.begin(), symbols_.end(), same)) symbols_.push_back(symbol);
  }
  return *this;
}

Traced operator+(const Traced& a, const Traced& b) {
  if (a.value_ == 0) return b;
  if (b.value_ == 0) return a;
  Traced out(a.value_ + b.value_, a.text_ + " + " + b.text_, Traced::Binding::Sum);
  return out.with_symbols_of(a).with_symbols_of(b);
}

Traced operator-(const Traced& a, const Traced& b) {
  if (b.value_ == 0) return a;
  Traced out(a.value_ - b.value_, a.text_ + " - " + b.bracketed(Traced::Binding::Product), Traced::Binding::Sum);
  return out.with_symbols_of(a).with_symbols_of(b);
}

Traced operator*(const Traced& a, const Traced& b) {
  if (a.is_one()) return b;
  if (b.is_one()) return a;
  constexpr auto kProduct = Traced::Binding::Product;
  Traced out(a.value_ * b.value_, a.bracketed(kProduct) + "*" + b.bracketed(kProduct), kProduct);
  return out.with_symbols_of(a).with_symbols_of(b);
}

Traced operator/(const Traced& a, const Traced& b) {
  if (b.is_one()) return a;
  Traced out(a.value_ / b.value_, a.bracketed(Traced::Binding::Product) + "/" + b.bracketed(Traced::Binding::Atom),
             Traced::Binding::Product);
  return out.with_symbols_of(a).with_symbols_of(b);
}

Traced larger(const Traced& a, const Traced& b) {
  Traced out(larger(a.value_, b.value_), "max(" + a.text_ + ", " + b.text_ + ")", Traced::Binding::Atom);
  return out.with_symbols_of(a).with_symbols_of(b);
}

Traced smaller(const Traced& a, const Traced& b) {
  Traced out(smaller(a.value_, b.value_), "min(" + a.text_ + ", " + b.text_ + ")", Traced::Binding::Atom);
  return out.with_symbols_of(a).with_symbols_of(b);
}

Traced rounded_up(const Traced& a) {
  Traced out(rounded_up(a.value_), "ceil(" + a.text_ + ")", Traced::Binding::Atom);
  return out.with_symbols_of(a);
}

Traced soft_sum(const Traced& a, const Traced& b, const Traced& p) {
  if (a.value_ == 0) return b;
  if (b.value_ == 0) return a;
  constexpr auto kAtom = Traced::Binding::Atom;
  const std::string power = "^" + p.bracketed(kAtom);
  const std::string sum = "(" + a.bracketed(kAtom) + power + " + " + b.bracketed(kAtom) + power + ")";
  const bool root = p.symbols_.empty() && p.value_ == 2;
  Traced out(soft_sum(a.value_, b.value_, p.value_), root ? "sqrt" + sum : sum + "^(1/" + p.bracketed(kAtom) + ")",
             root ? kAtom : Traced::Binding::Product);
  return out.with_symbols_of(a).with_symbols_of(b).with_symbols_of(p);
}

}  // namespace plan
