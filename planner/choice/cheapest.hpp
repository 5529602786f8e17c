#pragma once

#include <algorithm>
#include <vector>

namespace plan {

/// What a token of some job takes.
struct TokenCost {
  double gpu_seconds = 0;
  double price_per_hour = 0;  ///< USD of a GPU; 0: not known
};

/// Sorts jobs by the price of a token, the cheapest first and equals in the order that they had; by GPU-seconds where
/// the price of some GPU is not known. `cost` of an element is its TokenCost.
template <class T, class Cost>
void sort_cheapest_first(std::vector<T>& all, const Cost& cost) {
  const bool priced = std::all_of(all.begin(), all.end(), [&](const T& one) { return cost(one).price_per_hour > 0; });
  const auto usd = [&](const T& one) {
    const TokenCost token = cost(one);
    return token.gpu_seconds * (priced ? token.price_per_hour : 1);
  };
  std::stable_sort(all.begin(), all.end(), [&](const T& a, const T& b) { return usd(a) < usd(b); });
}

}  // namespace plan
