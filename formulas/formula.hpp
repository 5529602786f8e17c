#pragma once

#include <string_view>

namespace plan {

/// One symbol of an equation: its letter in the field's papers, its meaning and unit.
struct Symbol {
  std::string_view name;
  std::string_view meaning;
};

/// An equation as text beside the function that computes it. A test evaluates the text on random
/// inputs and compares, so that what `plan explain` prints is what the code does.
///
/// Grammar: + - * / ^ ( ) numbers, symbols, min(,) max(,) ceil() floor() log2() sqrt() ln() exp().
struct Formula {
  std::string_view name;      ///< `plan formula NAME`
  std::string_view title;     ///< one line for `plan list formulas`
  std::string_view equation;  ///< in the symbols below
  std::string_view unit;      ///< of the result
  std::string_view source;
  std::string_view note = {};  ///< where the textbook form is wrong or needs care
};

}  // namespace plan
