#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "formulas/textbook/catalog.hpp"
#include "tests/oracle/equation_eval.hpp"

namespace plan {
namespace {

using oracle::evaluate_equation;

/// Draws over the domain, small and large: formulas are used from 1 rank to 1e12 parameters.
double draw(const Symbol& symbol, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(0, 1);
  switch (symbol.domain) {
    case Domain::Count: return std::floor(std::exp(unit(random) * std::log(4096.0)));
    case Domain::Real: return std::exp((unit(random) - 0.3) * 12);
    case Domain::Amount: return unit(random) < 0.2 ? 0 : std::floor(std::exp(unit(random) * 8));
    case Domain::Share: return unit(random);
  }
  return 0;
}

double text_value(std::string_view text, const CatalogEntry& entry, const std::vector<double>& values) {
  return evaluate_equation(text, [&](std::string_view name) {
    for (std::size_t i = 0; i < entry.symbols.size(); ++i)
      if (entry.symbols[i].name == name) return values[i];
    throw oracle::EquationError("unknown symbol " + std::string(name));
  });
}

bool agrees(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a == b;
  return a == b || std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}

void check_text(const CatalogEntry& entry, std::string_view text, Evaluate evaluate, std::mt19937_64& random) {
  int verified = 0, wrong = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<double> values;
    for (const Symbol& symbol : entry.symbols) values.push_back(draw(symbol, random));
    const double by_text = text_value(text, entry, values), by_code = evaluate(values);
    if (std::isnan(by_text)) continue;  // a ratio of binomials that are both beyond a double
    verified += std::isfinite(by_code);
    if (agrees(by_text, by_code)) continue;
    if (++wrong == 1) {
      std::string shown;
      for (std::size_t i = 0; i < values.size(); ++i)
        shown += std::string(entry.symbols[i].name) + "=" + std::to_string(values[i]) + " ";
      MESSAGE(std::string(entry.formula.name) << ": text " << by_text << ", code " << by_code << " at " << shown);
    }
  }
  CAPTURE(std::string(entry.formula.name));
  CHECK(wrong == 0);
  CHECK(verified >= 500);
}

TEST_CASE("the text of every formula is what its function computes") {
  std::mt19937_64 random(20240901);
  for (const CatalogEntry& entry : catalog()) {
    CAPTURE(std::string(entry.formula.name));
    REQUIRE(static_cast<bool>(entry.evaluate));
    check_text(entry, entry.formula.equation, entry.evaluate, random);
    if (entry.erratum.evaluate != nullptr) check_text(entry, entry.erratum.equation, entry.erratum.evaluate, random);
  }
}

TEST_CASE("every symbol of a formula matters and is explained") {
  std::mt19937_64 random(7);
  for (const CatalogEntry& entry : catalog()) {
    CAPTURE(std::string(entry.formula.name));
    for (std::size_t i = 0; i < entry.symbols.size(); ++i) {
      CAPTURE(std::string(entry.symbols[i].name));
      CHECK_FALSE(entry.symbols[i].meaning.empty());
      bool matters = false;
      for (int trial = 0; trial < 200 && !matters; ++trial) {
        std::vector<double> values;
        for (const Symbol& symbol : entry.symbols) values.push_back(draw(symbol, random));
        const double before = entry.evaluate(values);
        values[i] = draw(entry.symbols[i], random);
        matters = entry.evaluate(values) != before;
      }
      CHECK(matters);
    }
  }
}

TEST_CASE("every formula has its own name, a title, a source and one reading") {
  std::set<std::string_view> names;
  for (const CatalogEntry& entry : catalog()) {
    CAPTURE(std::string(entry.formula.name));
    CHECK(names.insert(entry.formula.name).second);
    CHECK_FALSE(entry.formula.title.empty());
    CHECK_FALSE(entry.formula.source.empty());
    std::set<std::string_view> symbols;
    for (const Symbol& symbol : entry.symbols) CHECK(symbols.insert(symbol.name).second);
    if (entry.erratum) {
      CHECK_FALSE(entry.erratum.equation.empty());
      CHECK_FALSE(entry.erratum.why.empty());
    }
  }
  CHECK(names.size() > 100);
}

TEST_CASE("the evaluator reads the grammar") {
  const auto x_is_3 = [](std::string_view name) {
    if (name != "x") throw oracle::EquationError("unknown symbol");
    return 3.0;
  };
  const auto value = [&](const char* text) { return evaluate_equation(text, x_is_3); };
  CHECK(value("1 + 2*x") == 7);
  CHECK(value("2*x^2") == 18);
  CHECK(value("-x^2") == -9);
  CHECK(value("2^x^2") == 512);
  CHECK(value("8/2/2") == 2);
  CHECK(value("10 - 3 - 2") == 5);
  CHECK(value("2 - -1") == 3);
  CHECK(value("1e6/4") == 250000);
  CHECK(value("min(x, 2) + max(x, 5)") == 7);
  CHECK(value("ceil(x/2) - floor(x/2)") == 1);
  CHECK(value("log2(8)*sqrt(16)") == 12);
  CHECK(value("ln(exp(x))") == doctest::Approx(3));
  CHECK(value("choose(5, 2)") == 10);
  CHECK(value("probit(0.975)") == doctest::Approx(1.959963984540054));
  for (const char* bad : {"", "1 +", "(1", "1)", "y", "f(1)", "min(1)", "sqrt(1, 2)", "2 x", "*"}) {
    CAPTURE(std::string(bad));
    CHECK_THROWS_AS(value(bad), oracle::EquationError);
  }
}

}  // namespace
}  // namespace plan
