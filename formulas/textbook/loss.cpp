// The loss that a model of some size reaches on some number of tokens (plan-formulas(7) G). Assumes one pass over fresh
// text and a learning rate that decays over the whole run. Source: Hoffmann et al. 2022, arXiv:2203.15556, approach 3.
// Tested by tests/formulas/rules_test.cpp.
#include "formulas/textbook/loss.hpp"

#include <cmath>

namespace plan {
namespace {

constexpr Symbol kSymbols[] = {{"N", "parameters", ""}, {"D", "tokens of the run", "tokens"}};

constexpr CatalogEntry kEntries[] = {entry<expected_loss>(kExpectedLoss, kSymbols)};

}  // namespace

double expected_loss(const ExpectedLossInput& in) {
  return 1.69 + 406.4 / std::pow(in.parameters, 0.34) + 410.7 / std::pow(in.tokens, 0.28);
}

std::span<const CatalogEntry> loss_formulas() { return kEntries; }

}  // namespace plan
