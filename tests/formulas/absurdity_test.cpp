// Sizes that no real model has, by counts of weights made by hand.
#include "formulas/absurdity.hpp"

#include <doctest/doctest.h>

#include "models.hpp"

using namespace plan;

namespace {

constexpr std::int64_t kHidden = 65536, kHeads = 128, kKvHeads = 8, kVocab = 128256, kDepth = 100;

/// A Llama with so many weights in all, by the width of its FFN or of its experts.
Model of_size(double weights, std::int64_t experts) {
  const double attention = 2.0 * kHidden * kHidden + 2.0 * kHidden * kKvHeads * (kHidden / kHeads);
  const double router = experts > 0 ? static_cast<double>(experts) * kHidden : 0;
  const double left = (weights - 2.0 * kVocab * kHidden) / kDepth - attention - router;
  const auto width = static_cast<std::int64_t>(left / 3 / kHidden / static_cast<double>(experts > 0 ? experts : 1));
  Model model = fixture::llama(
      {.layers = kDepth, .hidden = kHidden, .heads = kHeads, .kv_heads = kKvHeads, .ffn = width, .vocab = kVocab});
  if (experts > 0) {
    model.kinds[0].ffn = Ffn::Moe;
    model.kinds[0].moe = {.experts = experts, .top_k = 2, .expert_width = width};
  }
  return model;
}

}  // namespace

TEST_CASE("a model is absurd from so many weights on, whether they lie in one FFN or in experts") {
  for (const std::int64_t experts : {0, 2, 8, 1024}) {
    CAPTURE(experts);
    for (const double share : {0.01, 0.3, 0.6, 0.99})
      CHECK(absurdity(of_size(share * kMostParameters, experts)).empty());
    for (const double share : {1.01, 1.5, 3.0})
      CHECK_FALSE(absurdity(of_size(share * kMostParameters, experts)).empty());
  }
}

TEST_CASE("a token may go to every expert there is, and query heads share as many KV heads as divide them") {
  for (std::int64_t experts = 1; experts < 10; ++experts)
    for (std::int64_t chosen = 1; chosen < 12; ++chosen) {
      Model model = of_size(1e12, experts);
      model.kinds[0].moe.top_k = chosen;
      CAPTURE(experts);
      CAPTURE(chosen);
      CHECK(absurdity(model).empty() == (chosen <= experts));
    }
  for (std::int64_t shared = 1; shared <= kHeads; ++shared) {
    Model model = of_size(1e12, 0);
    model.kinds[0].attention.kv_heads = shared;
    CAPTURE(shared);
    CHECK(absurdity(model).empty() == (kHeads / shared * shared == kHeads));
  }
}
