#pragma once

// The axes of a layout, each written once: reading `--layout` and plans in JSON, printing and comparing layouts, laying
// what was typed over what files state, and the brute-force oracle go through this table.

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "formulas/layout.hpp"
#include "formulas/names.hpp"

namespace plan {

/// Axes that the user fixed; the search varies the rest.
struct Fixed {
  std::optional<int> tp, cp, pp, vp, group, dp, ep, etp, zero, shard, micro_batch;
  std::optional<CpKind> cp_kind;
  std::optional<int> cp_ulysses;
  std::optional<Schedule> schedule;
  std::optional<Recompute> recompute;
  std::optional<bool> sequence_parallel;
  std::optional<AxisOrder> order;
  std::optional<std::vector<int>> chunk_layers;
  std::optional<std::vector<StageStrategy>> stages;
  bool operator==(const Fixed&) const = default;
};

/// Where code beside this table knows an axis already. A new one is known nowhere.
enum AxisUse : unsigned {
  /// Rules say which of its values each framework runs, and screens have words of their own for it. A framework that
  /// nobody asked about an axis would be said to run every value of it, and its files would drop the word: of an axis
  /// that is not settled each runs the value that a layout starts with, and screens print what `--layout` takes.
  kSettled = 1,
  kRunColumn = 2,     ///< the columns of measured runs say it; of other axes their notes do
  kLayoutColumn = 4,  ///< tables of layouts have a column for it
  kInRuns = kSettled | kRunColumn,
  kInTables = kInRuns | kLayoutColumn,
};

/// Are two members of Layout the same, so that they name one axis?
template <class T, class U>
[[nodiscard]] constexpr bool same_axis(T Layout::*a, U Layout::*b) {
  if constexpr (std::is_same_v<T, U>)
    return a == b;
  else
    return false;
}

/// One axis: a choice that every layout makes and that a user can fix.
template <class T>
struct LayoutAxis {
  std::string_view key;   ///< in JSON, inputs and budgets
  std::string_view word;  ///< in `--layout`
  T Layout::*value;
  std::optional<T> Fixed::*fixed;
  unsigned uses = 0;        ///< of AxisUse
  int least = 0, most = 0;  ///< of a number
  bool later = false;       ///< plans that earlier versions wrote have none, and mean what a layout starts with

  /// Does code beside this table know it in that way?
  [[nodiscard]] constexpr bool is(AxisUse use) const { return (uses & use) == use; }
  /// Is it the axis of this member? Code that treats one axis otherwise names it so: a slip does not compile.
  template <class U>
  [[nodiscard]] constexpr bool is(U Layout::*member) const {
    return same_axis(value, member);
  }
};

/// No axis has more ranks: a job has at most as many GPUs.
inline constexpr int kMostRanks = 1 << 24;

/// In the order of the layout's JSON, in which layouts that cost the same are ranked, too.
inline constexpr std::tuple kAxes{
    LayoutAxis<int>{"tp", "tp", &Layout::tp, &Fixed::tp, kInTables, 1, kMostRanks},
    LayoutAxis<int>{"cp", "cp", &Layout::cp, &Fixed::cp, kInTables, 1, kMostRanks},
    LayoutAxis<CpKind>{"cp_kind", "cp-kind", &Layout::cp_kind, &Fixed::cp_kind, kSettled},
    LayoutAxis<int>{"cp_ulysses", "cp-ulysses", &Layout::cp_ulysses, &Fixed::cp_ulysses, kSettled, 1, kMostRanks},
    LayoutAxis<int>{"pp", "pp", &Layout::pp, &Fixed::pp, kInTables, 1, kMostRanks},
    LayoutAxis<int>{"vp", "vp", &Layout::vp, &Fixed::vp, kInTables, 1, kMostRanks},
    LayoutAxis<int>{"group", "group", &Layout::group, &Fixed::group, kSettled, 0, kMostRanks, true},
    LayoutAxis<int>{"dp", "dp", &Layout::dp, &Fixed::dp, kInTables, 1, kMostRanks},
    LayoutAxis<int>{"ep", "ep", &Layout::ep, &Fixed::ep, kInTables, 1, kMostRanks},
    LayoutAxis<int>{"etp", "etp", &Layout::etp, &Fixed::etp, kInRuns, 1, kMostRanks},
    LayoutAxis<int>{"zero", "zero", &Layout::zero, &Fixed::zero, kInRuns, 0, 3},
    LayoutAxis<int>{"shard", "shard", &Layout::shard, &Fixed::shard, kInRuns, 0, kMostRanks},
    LayoutAxis<int>{"micro_batch", "mb", &Layout::micro_batch, &Fixed::micro_batch, kInRuns, 1, kMostRanks},
    LayoutAxis<Schedule>{"schedule", "schedule", &Layout::schedule, &Fixed::schedule, kInRuns},
    LayoutAxis<Recompute>{"recompute", "recompute", &Layout::recompute, &Fixed::recompute, kInRuns},
    LayoutAxis<bool>{"sequence_parallel", "sp", &Layout::sequence_parallel, &Fixed::sequence_parallel, kInRuns},
    LayoutAxis<AxisOrder>{.key = "order",
                          .word = "order",
                          .value = &Layout::order,
                          .fixed = &Fixed::order,
                          .uses = kSettled,
                          .later = true},
    LayoutAxis<std::vector<int>>{"layers", "layers", &Layout::chunk_layers, &Fixed::chunk_layers,
                                 kSettled | kLayoutColumn},
    LayoutAxis<std::vector<StageStrategy>>{"stage_strategies", "stages", &Layout::stages, &Fixed::stages, kSettled},
};

/// Calls `visit` with each axis in turn.
template <class Visit>
constexpr void each_axis(const Visit& visit) {
  std::apply([&](const auto&... axis) { (visit(axis), ...); }, kAxes);
}

/// The key of the axis that this member fixes: what files and words state of it goes by that name.
template <class T>
[[nodiscard]] constexpr std::string_view axis_key(std::optional<T> Fixed::*fixed) {
  std::string_view key;
  each_axis([&](const auto& axis) {
    if constexpr (std::is_same_v<std::decay_t<decltype(axis.fixed)>, std::optional<T> Fixed::*>)
      if (axis.fixed == fixed) key = axis.key;
  });
  return key;
}

/// Do all rows of a table that says more of some axes name one by its key?
template <class Rows>
[[nodiscard]] constexpr bool name_axes(const Rows& rows) {
  for (const auto& row : rows) {
    bool known = false;
    each_axis([&](const auto& axis) { known = known || axis.key == row.key; });
    if (!known) return false;
  }
  return true;
}

/// "none", "full", "full-4" (first 4 layers of a chunk), "uniform-2", "core_attn+mlp".
[[nodiscard]] std::string recompute_text(const Recompute& recompute);
/// "full-2", "none@offload4", "full@tp4@zero3": what a stage recomputes, and what else it does its own way.
[[nodiscard]] std::string stage_strategy_text(const StageStrategy& stage);
/// Strategies of stages, runs together: "2xfull:none".
[[nodiscard]] std::string stages_text(const std::vector<StageStrategy>& stages);
/// Numbers of layers, runs together: "7+14x8+7".
[[nodiscard]] std::string stage_layers_text(const std::vector<int>& layers);

/// Words of an axis that is a choice among several.
[[nodiscard]] constexpr const auto& names_of(CpKind) { return kCpKindNames; }
[[nodiscard]] constexpr const auto& names_of(Schedule) { return kScheduleNames; }
[[nodiscard]] constexpr const auto& names_of(AxisOrder) { return kAxisOrderNames; }

/// A value as `--layout` takes it back.
template <class E>
requires std::is_enum_v<E>
[[nodiscard]] std::string axis_text(E value) { return std::string(name(value)); }
[[nodiscard]] std::string axis_text(int value);
[[nodiscard]] std::string axis_text(bool value);
[[nodiscard]] std::string axis_text(const Recompute& value);
[[nodiscard]] std::string axis_text(const std::vector<int>& value);
[[nodiscard]] std::string axis_text(const std::vector<StageStrategy>& value);

/// An axis with its value: "tp8", "schedule=1f1b".
template <class T>
[[nodiscard]] std::string worded(const LayoutAxis<T>& axis, const T& value) {
  return std::string(axis.word) + (std::is_same_v<T, int> ? "" : "=") + axis_text(value);
}

/// Strict order of layouts, axis by axis as the table has them: smaller values first.
[[nodiscard]] bool precedes(const Layout& a, const Layout& b);

/// `base`, and what `over` fixes instead of it.
[[nodiscard]] Fixed overlaid(Fixed base, const Fixed& over);

/// The fixed axes as words: {"tp8", "schedule=1f1b"}.
[[nodiscard]] std::vector<std::string> fixed_words(const Fixed& fixed);

/// Words of the axes in which a layout is not what was fixed: none, or the answer is to another question.
[[nodiscard]] std::vector<std::string> words_lost(const Fixed& fixed, const Layout& layout);

}  // namespace plan
