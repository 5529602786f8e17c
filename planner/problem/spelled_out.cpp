// Tested by tests/planner/every_axis_test.cpp and run_write_test.cpp.
#include "planner/problem/spelled_out.hpp"

#include "planner/problem/axes.hpp"
#include "planner/problem/pipeline.hpp"

namespace plan {

bool means_something(std::string_view axis, const Layout& layout) {
  if (axis == "cp_kind") return layout.any_context();
  if (axis == "cp_ulysses") return layout.any_context() && layout.cp_kind == CpKind::Hybrid;
  if (axis == "schedule" || axis == "order" || axis == "layers") return layout.pp > 1;
  if (axis == "group") return layout.pp > 1 && schedule_row(layout.schedule).passes == Passes::EachGroup;
  if (axis == "shard") return layout.zero > 0;
  if (axis == "recompute") return layout.stages.empty();
  return axis != "stage_strategies" || !layout.stages.empty();
}

Layout spelled_out(Layout layout, std::int64_t micro_batches) {
  const Layout said = layout, plain;
  each_axis([&](const auto& axis) {
    if (!means_something(axis.key, said)) layout.*axis.value = plain.*axis.value;
  });
  if (means_something("group", said)) layout.group = pipeline_of(said, micro_batches).group;
  if (means_something("shard", said)) layout.shard = said.shard_group();
  return layout;
}

}  // namespace plan
