#pragma once

#include <string_view>
#include <vector>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Reads `--layout tp8,pp16,schedule=1f1b,recompute=full,sp`. Every mistake at once.
[[nodiscard]] Result<Fixed> read_layout(std::string_view text);

/// `none`, `full`, `full-4`, `uniform-2`, `core_attn+mlp`.
[[nodiscard]] Result<Recompute> read_recompute(std::string_view text);

/// `2xfull-2:none@offload4:none@tp4@zero3`: a strategy for each stage, front to back.
[[nodiscard]] Result<std::vector<StageStrategy>> read_stages(std::string_view text);

}  // namespace plan
