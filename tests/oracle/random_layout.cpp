#include "tests/oracle/random_layout.hpp"

#include <algorithm>
#include <type_traits>

#include "planner/problem/axes.hpp"

namespace plan::oracle {
namespace {

Recompute any_recompute(std::mt19937& random) {
  switch (random() % 4) {
    case 0: return {};
    case 1: return {.kind = RecomputeKind::Full};
    case 2: return {.kind = RecomputeKind::Full, .layers = 1 + static_cast<int>(random() % 3)};
    case 3: break;
  }
  return {.kind = RecomputeKind::Selective, .modules = kRecomputeNorm};
}

template <class T>
T any_value(std::mt19937& random, const LayoutAxis<T>& axis) {
  if constexpr (std::is_same_v<T, int>)
    return axis.least + static_cast<int>(random() % static_cast<unsigned>(std::min(4, axis.most - axis.least + 1)));
  else if constexpr (std::is_same_v<T, bool>)
    return random() % 2 == 1;
  else if constexpr (std::is_enum_v<T>)
    return names_of(T{})[random() % std::size(names_of(T{}))].value;
  else if constexpr (std::is_same_v<T, Recompute>)
    return any_recompute(random);
  else if constexpr (std::is_same_v<T, std::vector<int>>)
    return {static_cast<int>(1 + random() % 3), static_cast<int>(1 + random() % 3)};
  else
    return random() % 2 == 0 ? T{} : T{{.recompute = any_recompute(random)}, {.recompute = any_recompute(random)}};
}

}  // namespace

Layout any_values(std::mt19937& random) {
  Layout layout;
  each_axis([&](const auto& axis) { layout.*axis.value = any_value(random, axis); });
  return layout;
}

}  // namespace plan::oracle
