#pragma once

#include <string>
#include <string_view>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What an item that names no axis may mean. Who reads items for a person passes it in, since what other words mean is
/// found by reading them as items.
using SayUnknown = Error (*)(std::string_view text, const std::string& name, const std::string& value);

/// Reads items between commas, without blanks: `tp8,pp16,schedule=1f1b`. Every mistake at once.
[[nodiscard]] Result<Fixed> read_items(std::string_view words, SayUnknown say_unknown);

/// The axis that an item names, under any of its names, or whose value it is alone.
struct NamedAxis {
  std::string_view key{};  ///< empty for other words
  bool valued = false;     ///< does the item say the value, too?
};
[[nodiscard]] NamedAxis axis_of_item(std::string_view text);

/// Adds how the number of an axis is written to mistakes in one that have no help yet.
void add_examples(Errors& errors);

/// The item that says none of an axis: `sp=off`, `zero0`, `tp1`; empty where the axis has no such value, or the word
/// itself says it, as `ddp` does.
[[nodiscard]] std::string item_without(std::string_view axis_word);

}  // namespace plan
