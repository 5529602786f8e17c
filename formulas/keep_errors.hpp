#pragma once

#include "formulas/result.hpp"

namespace plan {

/// Adds what is wrong with a result to `all`, so that a user hears of every mistake at once. Returns whether the result
/// has a value.
template <class T>
bool keep_errors(Errors& all, const Result<T>& result) {
  if (!result) all.insert(all.end(), result.error().begin(), result.error().end());
  return result.has_value();
}

}  // namespace plan
