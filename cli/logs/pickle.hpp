#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// Plain data out of a Python pickle: nothing, truth values, numbers, text, bytes, lists (tuples too) and dictionaries.
/// Points into its document, where containers occur once however often the pickle names them, even inside themselves:
/// whoever follows them bounds how deep.
struct PickleValue {
  struct List;
  struct Dict;
  std::variant<std::monostate, bool, std::int64_t, double, const std::string*, List*, Dict*> held{};

  /// The value under a text key; nullptr if this is no dictionary or lacks it.
  [[nodiscard]] const PickleValue* find(std::string_view key) const;
  /// Elements of a list; empty for anything else.
  [[nodiscard]] const std::vector<PickleValue>& elements() const;
  /// A number, 0 for anything else.
  [[nodiscard]] double number() const;
  /// A text, empty for anything else.
  [[nodiscard]] std::string_view text() const;
};
struct PickleValue::List {
  std::vector<PickleValue> values{};
};
struct PickleValue::Dict {
  std::vector<std::pair<PickleValue, PickleValue>> items{};
};

/// A whole pickle. Freed without recursion, however deep its containers nest.
struct PickleDocument {
  PickleValue root{};
  std::deque<std::string> texts{};
  std::deque<PickleValue::List> lists{};
  std::deque<PickleValue::Dict> dicts{};
};

/// Reads a pickle without running anything: opcodes that name a class, call a function or build an object are refused,
/// as are those that Python itself no longer writes. `file` is named in errors.
[[nodiscard]] Result<PickleDocument> read_pickle(std::string_view bytes, const std::string& file);

}  // namespace plan
