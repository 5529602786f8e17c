#include "planner/frameworks.hpp"

#include <vector>

namespace plan {
namespace {

/// Megatron-LM with Transformer Engine, as its own recipes run it.
Stack megatron() { return Stack{}; }

/// The best practice of the field, not tied to one code base.
Stack any() {
  Stack stack = megatron();
  stack.framework = "any";
  return stack;
}

const std::vector<FrameworkRow>& table() {
  static const std::vector<FrameworkRow> rows = {
      {Framework::Any, "any", "no framework's limits, only what divides", any()},
      {Framework::Megatron, "megatron", "Megatron-LM and its dialects", megatron()},
  };
  return rows;
}

}  // namespace

std::span<const FrameworkRow> frameworks() { return table(); }

const FrameworkRow& framework_row(Framework framework) {
  for (const FrameworkRow& row : table())
    if (row.framework == framework) return row;
  return table().front();
}

std::optional<Framework> find_framework(std::string_view name) {
  for (const FrameworkRow& row : table())
    if (row.name == name) return row.framework;
  return std::nullopt;
}

}  // namespace plan
