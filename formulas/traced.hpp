#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "formulas/real_bytes.hpp"
#include "formulas/units.hpp"

/// Laws that tell how they came to their number.
///
/// A law is written once, as a template over its number V. With V = double it is plain arithmetic: what the search
/// runs. With V = Traced the same lines carry, beside the value, the equation as text and the symbols that occur in it:
/// what `plan explain` prints. So an explanation is the computation itself and cannot leave anything over.
namespace plan {

/// Where symbols of laws come from, as explanations print it.
inline constexpr const char* kShapeOrigin = "model and layout";
inline constexpr const char* kConstantsOrigin = "cluster's constants";

class Traced;

/// A symbol of an equation: its letter, its value, what it means and where the value came from ("model", "layout"), or
/// the law that gave it.
struct TracedSymbol {
  std::string name;
  double value;
  std::string meaning;
  const char* origin;
  std::shared_ptr<const Traced> law{};
  const char* unit = "";  ///< of the law
};

/// A number with the equation that gave it, in the grammar of formulas/textbook/formula.hpp. A letter means one thing
/// within one equation. Terms that are 0 drop out of sums, and a bare 1 out of products, so that a layer's equation
/// names only what the layer has.
class Traced {
 public:
  Traced(double literal);  // NOLINT(google-explicit-constructor): laws mix numbers and symbols
  explicit Traced(const TracedSymbol& symbol);

  double value() const { return value_; }
  const std::string& equation() const { return text_; }
  const std::vector<TracedSymbol>& symbols() const { return symbols_; }

  friend Traced operator+(const Traced& a, const Traced& b);
  friend Traced operator-(const Traced& a, const Traced& b);
  friend Traced operator*(const Traced& a, const Traced& b);
  friend Traced operator/(const Traced& a, const Traced& b);
  friend Traced larger(const Traced& a, const Traced& b);
  friend Traced smaller(const Traced& a, const Traced& b);
  friend Traced rounded_up(const Traced& a);
  friend Traced soft_sum(const Traced& a, const Traced& b, const Traced& p);

 private:
  /// How tightly the outermost operation binds: decides on brackets.
  enum class Binding { Sum, Product, Atom };

  Traced(double value, std::string text, Binding binding) : value_(value), text_(std::move(text)), binding_(binding) {}
  std::string bracketed(Binding needed) const;
  bool is_one() const { return symbols_.empty() && value_ == 1; }
  Traced& with_symbols_of(const Traced& other);

  double value_ = 0;
  std::string text_{};
  Binding binding_ = Binding::Atom;
  std::vector<TracedSymbol> symbols_{};
};

inline double value_of(const Traced& a) { return a.value(); }

inline double larger(double a, double b) { return std::max(a, b); }
inline double smaller(double a, double b) { return std::min(a, b); }
template <class Tag>
Quantity<double, Tag> larger(Quantity<double, Tag> a, Quantity<double, Tag> b) {
  return std::max(a, b);
}
template <class Tag>
Quantity<double, Tag> smaller(Quantity<double, Tag> a, Quantity<double, Tag> b) {
  return std::min(a, b);
}
inline double rounded_up(double a) { return std::ceil(a); }
/// (a^p + b^p)^(1/p): p = 1 is the sum, p -> infinity the larger of the two. 0 where both are.
inline double soft_sum(double a, double b, double p) {
  if (p == 2) return std::hypot(a, b);
  const double more = std::max(a, b), less = std::min(a, b);
  if (more <= 0) return 0;
  const double ratio = less / more;
  if (p == 4) return more * std::sqrt(std::sqrt(1 + ratio * ratio * ratio * ratio));
  return more * std::pow(1 + std::pow(ratio, p), 1 / p);
}

/// What a law over V takes and gives in seconds or bytes: those, or the number that tells how it came about.
template <class V>
using SecondsOf = std::conditional_t<std::is_same_v<V, double>, Seconds, V>;
template <class V>
using BytesOf = std::conditional_t<std::is_same_v<V, double>, RealBytes, V>;

/// An input of a law under its letter; a bare number or a quantity where nobody asks.
template <class V, class Number>
V symbol(const char* name, Number value, const char* meaning, const char* origin) {
  if constexpr (!std::is_same_v<V, Traced>)
    return static_cast<V>(value);
  else
    return V(TracedSymbol{name, static_cast<double>(value_of(value)), meaning, origin});
}

/// One of several inputs of a law that are of one kind: "r_3".
template <class V>
V symbol(const char* name, int number, double value, const char* meaning, const char* origin) {
  if constexpr (std::is_same_v<V, double>)
    return value;
  else
    return V(TracedSymbol{std::string(name) + "_" + std::to_string(number), value, meaning, origin});
}

/// A law within a larger one, where a letter of its own represents it: inside, letters may mean other things.
template <class V>
V lettered(const char* name, const V& law, const char* meaning, const char* unit) {
  if constexpr (!std::is_same_v<V, Traced>)
    return law;
  else
    return law.value() == 0
               ? V(0.0)
               : V(TracedSymbol{name, law.value(), meaning, "", std::make_shared<const Traced>(law), unit});
}

/// One of several laws of one kind: "t_3", with words that only an explanation asks for.
template <class V, class Words>
V lettered(const char* name, int number, const V& law, const Words& meaning, const char* unit) {
  if constexpr (!std::is_same_v<V, Traced>)
    return law;
  else
    return law.value() == 0 ? V(0.0)
                            : V(TracedSymbol{std::string(name) + "_" + std::to_string(number), law.value(), meaning(),
                                             "", std::make_shared<const Traced>(law), unit});
}

}  // namespace plan
