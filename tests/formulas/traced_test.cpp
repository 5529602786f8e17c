// A traced number's text, evaluated by a reader that shares no code with it, gives its value.
#include "formulas/traced.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
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

TEST_CASE("sums with a soft knee read back as they were computed, sharp or soft") {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> size(1, 4096), softness(0.1, 10);
  for (int i = 0; i < 1000; ++i) {
    const double x = i % 7 == 0 ? 0 : size(random), y = size(random);
    const double p = i % 3 == 0 ? 2 : i % 3 == 1 ? 4 : softness(random);
    const Traced a = symbol<Traced>("a", x, "", ""), b = symbol<Traced>("b", y, "", "");
    const Traced knee = i % 2 == 0 ? Traced(p) : symbol<Traced>("p", p, "", "");
    const Traced sum = 3 * soft_sum(a * b, b / 2, knee) / soft_sum(b, a, knee);
    CAPTURE(sum.equation());
    const double by_powers =
        std::pow(std::pow(x * y, p) + std::pow(y / 2, p), 1 / p) * 3 / std::pow(std::pow(x, p) + std::pow(y, p), 1 / p);
    CHECK(evaluated(sum) == doctest::Approx(by_powers).epsilon(1e-9));
    CHECK(sum.value() == doctest::Approx(by_powers).epsilon(1e-9));
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
  CHECK((1.0 * a * (b / 1.0)).equation() == "a*b");
  CHECK((symbol<Traced>("o", 1, "", "") * a).equation() == "o*a");
  CHECK((a + b + a).symbols().size() == 2);
}

}  // namespace
