// How sure a ranking of predicted steps is. Tested by tests/planner/choice_test.cpp.
#include "planner/estimate/draws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <random>

#include "planner/estimate/evaluate.hpp"
#include "planner/estimate/uncertainty.hpp"

namespace plan {
namespace {

constexpr int kDraws = 400;

/// Standard deviation of the logarithm of a term's factor. What the ratio of two steps is off by for each share of them
/// that they spend on different things (paired_parts) counts that share on both sides: of two terms of which one grows
/// by what the other shrinks, each with an error of its own, it is the root of a half of a term's.
double term_error() { return std::numbers::sqrt2 * paired_parts(0).different; }

}  // namespace

/// Polar pairs of a 64-bit generator rather than std::normal_distribution, whose numbers differ between standard
/// libraries.
std::vector<Draws::Factors> Draws::draw() {
  std::mt19937_64 random(20220510);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto normal = [&] {
    for (;;) {
      const double x = 2 * uniform() - 1, y = 2 * uniform() - 1, square = x * x + y * y;
      if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
    }
  };
  const double error = term_error();
  std::vector<Factors> draws(kDraws);
  for (Factors& factors : draws)
    for (double& factor : factors) factor = std::exp(error * normal());
  return draws;
}

double Draws::step_under(const Factors& factors, const Terms& step) {
  double seconds = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) seconds += (step.*kTimeTerms[i].second).value * factors[i];
  return seconds;
}

Draws::Draws(const std::vector<Terms>& steps) : factors_(draw()) {
  fastest_.assign(factors_.size(), std::numeric_limits<double>::infinity());
  for (const Terms& step : steps)
    for (std::size_t i = 0; i < factors_.size(); ++i)
      fastest_[i] = std::min(fastest_[i], step_under(factors_[i], step));
}

double Draws::within(const Terms& step, double share) const {
  int good = 0;
  for (std::size_t i = 0; i < factors_.size(); ++i)
    good += step_under(factors_[i], step) <= (1 + share) * fastest_[i] * (1 + 1e-12);
  return static_cast<double>(good) / static_cast<double>(factors_.size());
}

Terms terms_of(const Problem& problem, const CostModel& costs, const Layout& layout) {
  Evaluator evaluator(problem, costs, layout);
  evaluator.recompute(layout.recompute);
  return evaluator.step_terms(layout, MemoryModel(problem, layout));
}

std::vector<Terms> terms_of(const Problem& problem, const std::vector<Layout>& layouts) {
  std::map<Split, CostModel> costs;
  std::vector<Terms> all;
  for (const Layout& layout : layouts) {
    const Split split = split_of(layout);
    auto known = costs.find(split);
    if (known == costs.end()) known = costs.emplace(split, CostModel(problem, split)).first;
    all.push_back(terms_of(problem, known->second, layout));
  }
  return all;
}

}  // namespace plan
