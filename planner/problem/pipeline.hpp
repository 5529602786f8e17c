#pragma once

#include "formulas/schedule.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// The pipeline of a layout with so many micro-batches a step. Where the layout leaves the group of micro-batches open,
/// it is the smallest that interleaving takes; only interleaving has one. On one stage nobody runs all forward passes
/// before the first backward one: there is nothing to fill.
[[nodiscard]] inline Pipeline pipeline_of(const Layout& layout, std::int64_t micro_batches) {
  const bool alone = layout.pp == 1 && layout.vp == 1 && schedule_row(layout.schedule).passes == Passes::Once;
  const Schedule schedule = alone ? Schedule::OneFOneB : layout.schedule;
  Pipeline pipeline{.schedule = schedule, .pp = layout.pp, .vp = layout.vp, .micro_batches = micro_batches};
  if (schedule_row(schedule).passes != Passes::EachGroup) return pipeline;
  pipeline.group = layout.group > 0 ? layout.group : static_cast<int>(fewest_in_group(layout.pp, micro_batches));
  return pipeline;
}

/// The pipeline of a layout with the micro-batches that the problem's global batch gives each replica.
[[nodiscard]] inline Pipeline pipeline_of(const Problem& problem, const Layout& layout) {
  Pipeline pipeline = pipeline_of(layout, micro_batches(problem.training.global_batch, layout.dp, layout.micro_batch));
  pipeline.rolls_on = problem.training.stack.post_validates;
  return pipeline;
}

}  // namespace plan
