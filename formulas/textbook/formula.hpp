#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace plan {

/// Numbers that a symbol may take.
enum class Domain : std::uint8_t {
  Count,   ///< whole and at least 1
  Real,    ///< positive
  Amount,  ///< zero or positive
  Share,   ///< 0 to 1
};

/// A symbol without a usual value: the user must say it.
inline constexpr double kNoTypical = std::numeric_limits<double>::quiet_NaN();

/// One symbol of an equation: its letter in the field's papers, its meaning and unit.
struct Symbol {
  std::string_view name;
  std::string_view meaning;
  std::string_view unit = {};   ///< empty for a plain number
  double typical = kNoTypical;  ///< taken when the user gives none
  Domain domain = Domain::Real;

  constexpr bool required() const { return typical != typical; }
};

/// An equation as text beside the function that computes it. A test evaluates the text on random
/// inputs and compares, so that what `plan explain` prints is what the code does.
///
/// Grammar: + - * / ^ ( ) numbers, symbols, min(,) max(,) ceil() floor() log2() sqrt() ln() exp(),
/// choose(n, k) the binomial coefficient, probit(q) the normal quantile.
struct Formula {
  std::string_view name;      ///< `plan formula NAME`
  std::string_view title;     ///< one line for `plan list formulas`
  std::string_view equation;  ///< in the symbols below
  std::string_view unit;      ///< of the result
  std::string_view source;
  std::string_view note = {};  ///< where the textbook form is wrong or needs care
};

}  // namespace plan
