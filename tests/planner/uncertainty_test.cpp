#include "planner/estimate/uncertainty.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace plan;

namespace {

Terms random_terms(std::mt19937& random) {
  std::uniform_real_distribution<double> seconds(0, 2);
  Terms terms;
  for (const auto term : {&Terms::compute, &Terms::recompute, &Terms::tp, &Terms::cp, &Terms::ep, &Terms::pp,
                          &Terms::dp, &Terms::bubble, &Terms::optimizer, &Terms::straggler})
    terms.*term = Seconds(seconds(random));
  return terms;
}

Terms scaled(Terms terms, double factor) {
  for (const auto term : {&Terms::compute, &Terms::recompute, &Terms::tp, &Terms::cp, &Terms::ep, &Terms::pp,
                          &Terms::dp, &Terms::bubble, &Terms::optimizer, &Terms::straggler})
    terms.*term = Seconds(factor * (terms.*term).value);
  return terms;
}

}  // namespace

TEST_CASE("two layouts differ the less certainly the less they have in common") {
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Terms a = random_terms(random), b = random_terms(random);
    const double spread = paired_spread(a, b);
    CHECK(spread == doctest::Approx(paired_spread(b, a)));
    CHECK(spread == doctest::Approx(paired_spread(scaled(a, 7), scaled(b, 7))));  // whatever the unit
    CHECK(spread > paired_spread(a, a));
    CHECK(paired_spread(a, b, 1) < paired_spread(a, b, 0.5));
    CHECK(paired_spread(a, b, 0.5) < spread);
    // Apart from all that they share, one of them waits a second more, or two.
    Terms waits = a, longer = a;
    waits.bubble += Seconds(1), longer.bubble += Seconds(2);
    CHECK(paired_spread(a, waits) < paired_spread(a, longer));
  }
  CHECK(paired_spread({}, {}) == 0);
}

TEST_CASE("a paired interval holds nine of ten normal draws") {
  std::mt19937 random(2);
  const Problem problem;
  Estimate a, b;
  a.terms = random_terms(random), b.terms = random_terms(random);
  const Difference difference = paired_difference(problem, a, b), other = paired_difference(problem, b, a);
  const double predicted = a.terms.total() / b.terms.total();
  CHECK(difference.middle == doctest::Approx(predicted - 1));
  CHECK((1 + difference.low) * (1 + other.high) == doctest::Approx(1));  // whichever of the two is asked about
  std::normal_distribution<double> draw(0, paired_spread(a.terms, b.terms));
  int inside = 0;
  for (int i = 0; i < 20000; ++i) {
    const double ratio = std::exp(draw(random));
    inside += 1 + difference.low <= predicted * ratio && predicted * ratio <= 1 + difference.high;
  }
  CHECK(inside == doctest::Approx(18000).epsilon(0.01));
}
