#pragma once

#include <optional>
#include <utility>

#include "formulas/result.hpp"

namespace plan {

/// Adds what is wrong with a result to `all`, so that a user hears of every mistake at once. Returns whether the result
/// has a value.
template <class T>
bool keep_errors(Errors& all, const Result<T>& result) {
  if (!result) all.insert(all.end(), result.error().begin(), result.error().end());
  return result.has_value();
}

/// The value of a result; where it has none, what is wrong with it joins `all`.
template <class T>
[[nodiscard]] std::optional<T> value_or_errors(Errors& all, Result<T> result) {
  if (!keep_errors(all, result)) return std::nullopt;
  return std::move(*result);
}

}  // namespace plan
