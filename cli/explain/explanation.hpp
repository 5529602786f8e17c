#pragma once

#include <string>
#include <vector>

#include "cli/terminal/json_text.hpp"
#include "cli/terminal/terminal.hpp"

namespace plan {

/// A symbol of an equation with its value and where that came from.
struct ExplainedSymbol {
  std::string name;
  double value = 0;
  std::string meaning;
  std::string origin;
};

/// A piece of a picture: what lies there and how much of its row it takes.
struct DrawnBlock {
  std::string text{};
  int colour = 0;  ///< 0 to 9, the page's palette
  double share = 0;
};
/// One row of a picture: blocks where there is room to draw, the words elsewhere.
struct DrawnRow {
  std::string words{};
  std::vector<DrawnBlock> blocks{};
};

/// How a number comes about: `plan explain` and `plan formula` print it.
struct Explanation {
  std::string name;      ///< as typed
  std::string title;     ///< "activations held by stage 1"
  std::string equation;  ///< in the symbols
  std::vector<ExplainedSymbol> symbols{};
  double value = 0;
  std::string unit{};  ///< of the value: "bytes", "s", ...
  std::string source{};
  std::vector<std::string> notes{};
  std::vector<DrawnRow> drawing{};
  std::vector<Explanation> parts{};  ///< how symbols that are no input come about; named TERM.SYMBOL
};

/// Hands out an explanation and, behind it, its parts with theirs.
template <class F>
void each_explanation(const Explanation& explanation, const F& take) {
  take(explanation);
  for (const Explanation& part : explanation.parts) each_explanation(part, take);
}

/// The value with its unit as people read it: "45 634 027 520 B = 42.5 GiB".
[[nodiscard]] std::string value_text(double value, const std::string& unit);

/// The equation with every symbol replaced by its value.
[[nodiscard]] std::string substituted(const Explanation& explanation);

/// A symbol's value as explanations print it.
[[nodiscard]] std::string symbol_value(double value);

[[nodiscard]] std::string human_explanation(const Explanation& explanation, const Terminal& terminal);
[[nodiscard]] Json json_explanation(const Explanation& explanation);
/// Several of them: schema plan-explain/1.
[[nodiscard]] Json json_explanations(const std::vector<Explanation>& explanations);

}  // namespace plan
