#pragma once

#include <initializer_list>
#include <random>

namespace plan {

/// One of the values, each as likely.
template <class T>
[[nodiscard]] T pick(std::mt19937& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}

/// Yes in so many cases of a hundred.
[[nodiscard]] inline bool chance(std::mt19937& random, int percent) {
  return static_cast<int>(random() % 100) < percent;
}

}  // namespace plan
