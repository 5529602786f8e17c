#pragma once

#include <string_view>

#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// `--state-formats`: number formats of the optimizer's states, in Megatron alone.
[[nodiscard]] Errors take_state_formats(std::string_view text, Problem& problem);

/// `--cuda-graphs`: what graphs launch, in Megatron alone, of the parts that the model has and whose shapes are known
/// beforehand.
[[nodiscard]] Errors take_cuda_graphs(std::string_view text, Problem& problem);

}  // namespace plan
