#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace plan::oracle {

/// The text is not an equation of the grammar in formulas/textbook/formula.hpp.
struct EquationError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Value of a symbol; throws EquationError for a name it does not know.
using Lookup = std::function<double(std::string_view)>;

/// Evaluates an equation as a reader with pencil and paper would: slow, obvious, and sharing no code with
/// the formulas it checks.
double evaluate_equation(std::string_view text, const Lookup& lookup);

}  // namespace plan::oracle
