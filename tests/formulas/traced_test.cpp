// A traced number's text, evaluated by a reader that shares no code with it, gives its value.
#include "formulas/traced.hpp"

#include <doctest/doctest.h>

#include <array>
#include <random>

#include "oracle/equation_eval.hpp"

using namespace plan;

namespace {

double evaluated(const Traced& traced) {
  return oracle::evaluate_equation(traced.equation(), [&](std::string_view name) {
    for (const TracedSymbol& symbol : traced.symbols())
      if (symbol.name == name) return symbol.value;
    throw oracle::EquationError("no symbol " + std::string(name));
  });
}

/// One law, written once for both kinds of number.
template <class V>
V law(double x, double y) {
  const V a = symbol<V>("a", x, "", ""), b = symbol<V>("b", y, "", "");
  return larger(2 * a - (b - a), a / (b / a)) * (a + b) / (3 * b) + rounded_up(a / 128) * 128 + smaller(a, b);
}

TEST_CASE("a law gives the same number with and without its equation") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> size(1, 4096);
  for (int i = 0; i < 1000; ++i) {
    const double a = size(random), b = size(random);
    CHECK(law<Traced>(a, b).value() == law<double>(a, b));
    CHECK(evaluated(law<Traced>(a, b)) == doctest::Approx(law<double>(a, b)).epsilon(1e-12));
  }
}

TEST_CASE("random expressions read back as they were computed") {
  std::mt19937 random(8);
  for (int i = 0; i < 2000; ++i) {
    std::array<Traced, 4> pool = {symbol<Traced>("a", 3, "", ""), symbol<Traced>("b", 7.5, "", ""),
                                  symbol<Traced>("c", 0, "", ""), Traced(1.03125)};
    for (int step = 0; step < 6; ++step) {
      Traced& to = pool[random() % pool.size()];
      const Traced& other = pool[random() % pool.size()];
      switch (random() % 5) {
        case 0: to = to + other; break;
        case 1: to = to - other; break;
        case 2: to = to * other; break;
        case 3:
          if (other.value() != 0) to = to / other;
          break;
        default: to = larger(to, other); break;
      }
    }
    for (const Traced& traced : pool) {
      CAPTURE(traced.equation());
      CHECK(evaluated(traced) == doctest::Approx(traced.value()).epsilon(1e-9));
    }
  }
}

TEST_CASE("terms of nothing are not written, and brackets stand only where they must") {
  const Traced a = symbol<Traced>("a", 2, "", ""), b = symbol<Traced>("b", 5, "", ""), none(0.0);
  CHECK((none + a * (b + 1) - none).equation() == "a*(b + 1)");
  CHECK((a - (b - a)).equation() == "a - (b - a)");
  CHECK((a / (b * a)).equation() == "a/(b*a)");
  CHECK((a * b / a).equation() == "a*b/a");
  CHECK((a + b + a).symbols().size() == 2);
}

}  // namespace
