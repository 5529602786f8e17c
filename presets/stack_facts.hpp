#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "formulas/model.hpp"
#include "formulas/training.hpp"

namespace plan {

/// A fact of a software stack that files under presets/stacks state: its key and its member of Stack.
struct StackFactRow {
  using Member =
      std::variant<bool Stack::*, int Stack::*, StateLayout Stack::*, CrossEntropy Stack::*, AttentionKernel Stack::*>;
  std::string_view name;
  Member member;
  /// Whether a model and its training have what the fact is about. Only facts with this can differ between releases.
  bool (*matters)(const Model&, const Training&) = nullptr;
};

/// One fact of a file, with where it is known from.
struct StackFact {
  const StackFactRow* row = nullptr;
  int value = 0;  ///< a truth or an enumerator as its number
  std::string source{};
};

/// All of them, in the order of Stack.
[[nodiscard]] std::span<const StackFactRow> stack_fact_rows();

/// `value` of the fact, an enumerator or a truth as its number, laid into `stack`; and the number that it has there.
void set_fact(const StackFactRow& row, int value, Stack& stack);
[[nodiscard]] int fact_of(const StackFactRow& row, const Stack& stack);

}  // namespace plan
