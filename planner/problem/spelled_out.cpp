// Tested by tests/planner/every_axis_test.cpp and run_write_test.cpp.
#include "planner/problem/spelled_out.hpp"

#include "planner/problem/pipeline.hpp"

namespace plan {

Layout spelled_out(Layout layout, std::int64_t micro_batches) {
  const Layout said = layout, plain;
  each_axis([&](const auto& axis) {
    if (!means_something(axis.value, said)) layout.*axis.value = plain.*axis.value;
  });
  if (means_something(&Layout::group, said)) layout.group = pipeline_of(said, micro_batches).group;
  if (means_something(&Layout::shard, said)) layout.shard = said.shard_group();
  return layout;
}

}  // namespace plan
