// Tested by tests/planner/run_write_test.cpp.
#include "planner/runs/run_axes.hpp"

#include <fmt/core.h>

#include <optional>
#include <string_view>
#include <type_traits>

#include "formulas/text.hpp"
#include "planner/problem/axes.hpp"

namespace plan {
namespace {

/// Is it a number or a word that no column says?
template <class T>
bool is_fact(const LayoutAxis<T>& axis) {
  return (std::is_same_v<T, int> || std::is_enum_v<T>)&&!axis.is(kRunColumn);
}

template <class T>
std::optional<T> value_of(const LayoutAxis<T>& axis, std::string_view text) {
  if constexpr (std::is_same_v<T, int>) {
    const std::optional<int> value = as_number<int>(text);
    return value && *value >= axis.least && *value <= axis.most ? value : std::nullopt;
  } else if constexpr (std::is_enum_v<T>) {
    return parse(names_of(T{}), text);
  } else {
    return std::nullopt;
  }
}

}  // namespace

Result<Layout> with_axis_facts(const Run& run, Layout layout) {
  Errors errors;
  each_axis([&](const auto& axis) {
    const std::string_view text = run.fact(axis.key);
    if (!is_fact(axis) || text.empty()) return;
    if (const auto value = value_of(axis, text))
      layout.*axis.value = *value;
    else
      errors.push_back({"unknown_word", fmt::format("its notes say `{}={}`, which is no value of it", axis.key, text)});
  });
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return layout;
}

std::vector<std::pair<std::string, std::string>> axis_facts(const Layout& own, const Layout& read) {
  std::vector<std::pair<std::string, std::string>> facts;
  each_axis([&](const auto& axis) {
    if (is_fact(axis) && !(own.*axis.value == read.*axis.value))
      facts.emplace_back(axis.key, axis_text(own.*axis.value));
  });
  return facts;
}

}  // namespace plan
