#pragma once

#include <cstdint>

#include "formulas/layout.hpp"
#include "formulas/schedules.hpp"
#include "planner/problem/axes.hpp"

namespace plan {

/// Does the value of an axis mean anything beside the layout's other axes? Without stages no schedule does.
template <class T>
[[nodiscard]] bool means_something(T Layout::*axis, const Layout& layout) {
  const auto is = [&](auto... members) { return (same_axis(axis, members) || ...); };
  if (is(&Layout::cp_kind)) return layout.any_context();
  if (is(&Layout::cp_ulysses)) return layout.any_context() && layout.cp_kind == CpKind::Hybrid;
  if (is(&Layout::schedule, &Layout::order, &Layout::chunk_layers)) return layout.pp > 1;
  if (is(&Layout::group)) return layout.pp > 1 && schedule_row(layout.schedule).passes == Passes::EachGroup;
  if (is(&Layout::shard)) return layout.zero > 0;
  if (is(&Layout::recompute)) return layout.stages.empty();
  return !is(&Layout::stages) || !layout.stages.empty();
}

/// The layout with each axis as it comes out in a step of so many micro-batches: what is left open has its value, and
/// what means nothing is as a layout starts out. Two layouts that train the same way are then equal, but for layers
/// that nobody placed: where those go, costs say.
[[nodiscard]] Layout spelled_out(Layout layout, std::int64_t micro_batches);

}  // namespace plan
