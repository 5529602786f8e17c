#pragma once

#include "formulas/schedule.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// The pipeline of a layout with so many micro-batches a step. Where the layout leaves the group of micro-batches open,
/// it is the smallest that interleaving takes; only interleaving has one.
[[nodiscard]] inline Pipeline pipeline_of(const Layout& layout, std::int64_t micro_batches) {
  Pipeline pipeline{.schedule = layout.schedule, .pp = layout.pp, .vp = layout.vp, .micro_batches = micro_batches};
  if (schedule_row(layout.schedule).passes != Passes::EachGroup) return pipeline;
  pipeline.group = layout.group > 0 ? layout.group : static_cast<int>(fewest_in_group(layout.pp, micro_batches));
  return pipeline;
}

[[nodiscard]] inline Pipeline pipeline_of(const Problem& problem, const Layout& layout) {
  return pipeline_of(layout, micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch));
}

}  // namespace plan
