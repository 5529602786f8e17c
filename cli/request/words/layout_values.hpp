#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

/// Values of axes of `--layout` that are more than a number or a name.
namespace plan {

/// `none`, `full`, `full-4`, `uniform-2`, `core_attn+mlp`.
[[nodiscard]] Result<Recompute> read_recompute(std::string_view text);

/// `2xfull-2:none@offload4:none@tp4@zero3`: a strategy for each stage, front to back.
[[nodiscard]] Result<std::vector<StageStrategy>> read_stages(std::string_view text);

/// `7+14x8+7` or `7+8+7`: layers of each chunk in model order.
[[nodiscard]] Result<std::vector<int>> read_layers(const std::string& text);

/// That an axis of --layout has no such value, with those that it has.
[[nodiscard]] tl::unexpected<Errors> unknown_layout_word(std::string_view axis, std::string_view word,
                                                         const std::vector<std::string>& known);

}  // namespace plan
