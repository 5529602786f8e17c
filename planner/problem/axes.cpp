// What every axis of a layout can do. Tested by tests/cli/layout_flag_test.cpp and words_test.cpp.
#include "planner/problem/axes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "formulas/enum_rows.hpp"
#include "planner/problem/stage_layout.hpp"

namespace plan {

static_assert(kMembers<Layout, std::tuple_size_v<decltype(kAxes)>>);

std::string recompute_text(const Recompute& recompute) {
  switch (recompute.kind) {
    case RecomputeKind::None: return "none";
    case RecomputeKind::Full:
      if (recompute.layers > 0) return fmt::format("full-{}", recompute.layers);
      return recompute.uniform > 1 ? fmt::format("uniform-{}", recompute.uniform) : "full";
    case RecomputeKind::Selective: break;
  }
  std::string text;
  for (const Named<RecomputeModule>& row : kRecomputeModuleNames)
    if ((recompute.modules & row.value) != 0) text.append(text.empty() ? "" : "+").append(row.name);
  return text.empty() ? "none" : text;
}

namespace {

/// The members of a list, equal neighbours as "3xmember".
template <class T, class Text>
std::string runs_text(const std::vector<T>& list, const char* between, const Text& text_of) {
  std::string text;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i;
    while (end < list.size() && list[end] == list[i]) ++end;
    if (!text.empty()) text += between;
    if (end - i > 1) text += fmt::format("{}x", end - i);
    text += text_of(list[i]);
    i = end;
  }
  return text;
}

}  // namespace

std::string stage_strategy_text(const StageStrategy& stage) {
  std::string text = recompute_text(stage.recompute);
  for (const RunAxis& axis : kRunAxes)
    if (axis.stated(stage)) text += fmt::format("@{}{}", axis.word, stage.*axis.value);
  for (const StageStrategy& run : stage.behind) text += "~" + stage_strategy_text(run);
  return text;
}

std::string stages_text(const std::vector<StageStrategy>& stages) {
  return runs_text(stages, ":", stage_strategy_text);
}

std::string stage_layers_text(const std::vector<int>& layers) {
  return runs_text(layers, "+", [](int count) { return fmt::format("{}", count); });
}

std::string axis_text(int value) { return fmt::format("{}", value); }
std::string axis_text(bool value) { return value ? "on" : "off"; }
std::string axis_text(const Recompute& value) { return recompute_text(value); }
std::string axis_text(const std::vector<int>& value) { return stage_layers_text(value); }
std::string axis_text(const std::vector<StageStrategy>& value) { return stages_text(value); }

namespace {

template <class T>
bool less(const T& a, const T& b) {
  return a < b;
}
auto key_of(const Recompute& r) { return std::tuple(r.kind, r.modules, r.layers, r.uniform); }
bool less(const Recompute& a, const Recompute& b) { return key_of(a) < key_of(b); }
bool less(const std::vector<StageStrategy>& a, const std::vector<StageStrategy>& b) {
  const auto before = [](const StageStrategy& one, const StageStrategy& other) {
    if (one.recompute != other.recompute) return less(one.recompute, other.recompute);
    for (std::size_t i = 1; i <= std::size(kRunAxes); ++i) {  // how many layers last
      const RunAxis& axis = kRunAxes[i % std::size(kRunAxes)];
      if (one.*axis.value != other.*axis.value) return one.*axis.value < other.*axis.value;
    }
    return less(one.behind, other.behind);
  };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
}

}  // namespace

bool precedes(const Layout& a, const Layout& b) {
  int order = 0;
  each_axis([&](const auto& axis) {
    if (order == 0) order = less(a.*axis.value, b.*axis.value) ? -1 : less(b.*axis.value, a.*axis.value) ? 1 : 0;
  });
  return order < 0;
}

Fixed overlaid(Fixed base, const Fixed& over) {
  each_axis([&](const auto& axis) {
    if (over.*axis.fixed) base.*axis.fixed = over.*axis.fixed;
  });
  return base;
}

std::vector<std::string> fixed_words(const Fixed& fixed) {
  std::vector<std::string> words;
  each_axis([&](const auto& axis) {
    if (const auto& value = fixed.*axis.fixed) words.push_back(worded(axis, *value));
  });
  return words;
}

std::vector<std::string> words_lost(const Fixed& fixed, const Layout& layout) {
  std::vector<std::string> lost;
  each_axis([&](const auto& axis) {
    if (const auto& value = fixed.*axis.fixed; value && !(*value == layout.*axis.value))
      lost.push_back(worded(axis, *value));
  });
  return lost;
}

}  // namespace plan
