// Sizes that no real model has. Tested by tests/presets/model_test.cpp and tests/planner/extremes_test.cpp.
#include "formulas/absurdity.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "formulas/layer_rows.hpp"

namespace plan {

std::string absurdity(const Model& m) {
  if (m.layers.size() > kMostDepth)
    return "it has " + std::to_string(m.layers.size()) + " layers, more than " + std::to_string(kMostDepth);
  const auto d = [](std::int64_t v) { return static_cast<double>(v); };
  double total = 2 * d(m.vocab) * d(m.hidden) + d(m.positions) * d(m.hidden);
  for (const Layer& k : m.kinds) {
    const double count = d(std::count(m.layers.begin(), m.layers.end(), static_cast<int>(&k - m.kinds.data())) +
                           m.mtp.depth * static_cast<std::int64_t>(m.mtp.kinds.size()));
    const AttentionShape& a = k.attention;
    for (const Weight& w : layer_weights(m, k))
      total += count * (w.expert() ? d(k.moe.experts) : 1) * d(w.out + w.kv_out) * (w.matrix() ? d(w.in) : 1);
    if (k.ffn == Ffn::Moe && k.moe.top_k > k.moe.experts)
      return "a token cannot go to " + std::to_string(k.moe.top_k) + " of " + std::to_string(k.moe.experts) +
             " experts";
    if (k.mixer == Mixer::Attention && a.head_dim < 1)
      return std::to_string(a.heads) + " heads are too many for a hidden size of " + std::to_string(m.hidden);
    if (k.mixer == Mixer::Attention && a.kv_heads > 0 && a.heads % a.kv_heads != 0)
      return std::to_string(a.heads) + " query heads cannot share " + std::to_string(a.kv_heads) + " KV heads evenly";
  }
  if (total <= kMostParameters) return {};
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "about %.1g parameters: no such model exists", total);
  return text.data();
}

}  // namespace plan
