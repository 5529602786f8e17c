#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "formulas/training.hpp"
#include "planner/problem.hpp"

namespace plan {

/// A framework that plans can be made for, with its documented defaults.
struct FrameworkRow {
  Framework framework;
  std::string_view name;
  std::string_view help;
  Stack stack;
};

/// All frameworks, `any` first.
[[nodiscard]] std::span<const FrameworkRow> frameworks();
[[nodiscard]] const FrameworkRow& framework_row(Framework framework);
[[nodiscard]] std::optional<Framework> find_framework(std::string_view name);

}  // namespace plan
