// The words for how to choose a framework: `any`, whose plans some framework runs, and `none`, which asks for nothing
// but what divides. Their software is the best practice of the field. Tested by tests/planner/rules_test.cpp.
#include "planner/rules/rule_tables.hpp"
#include "planner/rules/stacks.hpp"

namespace plan {
namespace {

/// The best practice of the field, not tied to one code base.
Stack best_practice() {
  Stack stack = megatron_stack();
  stack.framework = "any";
  stack.dedup_dispatch = stack.fp8_dispatch = true;  // DeepEP and HybridEP
  return stack;
}

}  // namespace

FrameworkRow any_framework() {
  return {
      .framework = Framework::Any,
      .name = "any",
      .help = "one that exists: what some framework runs today",
      .stack = best_practice(),
      .run_word = "Megatron-Core",
      .both_orders = true,
      .empty_chunks = true,
  };
}

FrameworkRow no_framework() {
  return {
      .framework = Framework::None,
      .name = "none",
      .help = "no framework's limits, only what divides",
      .stack = best_practice(),
      .run_word = "Megatron-Core",
      .both_orders = true,
  };
}

}  // namespace plan
