// The words for how to choose a framework: `any`, whose plans some framework runs, and `none`, which asks for nothing
// but what divides. Their software is Megatron's, which runs most layouts: a plan's time and memory are those of the
// files that `plan emit` writes of it. Tested by tests/planner/rules_test.cpp.
#include "formulas/overlap.hpp"
#include "planner/rules/rule_tables.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {

FrameworkRow any_framework() {
  return {
      .framework = Framework::Any,
      .name = "any",
      .title = "any",
      .help = "one that exists: what some framework runs today",
      .stack = stacks::megatron(),
      .run_word = "Megatron-Core",
      .both_orders = true,
      .empty_chunks = true,
      .spares_layers = true,
      .graphs_of_parts = true,
      .overlaps = kOverlapAll,
      .dispatches = true,
      .offloads_optimizer = true,
      .offloads_weights = true,
      .offloads_activations = true,
      .sharded = StateLayout::MegatronFsdp,
  };
}

FrameworkRow no_framework() {
  FrameworkRow row = any_framework();
  row.framework = Framework::None;
  row.name = row.title = "none";
  row.help = "no framework's limits, only what divides";
  row.empty_chunks = false;
  row.narrow_states = true;
  return row;
}

}  // namespace plan
