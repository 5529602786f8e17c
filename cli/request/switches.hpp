#pragma once

#include "cli/terminal/cuda_graphs.hpp"
#include "cli/terminal/state_formats.hpp"
#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// Number formats of the optimizer's states, in Megatron alone.
[[nodiscard]] Errors take_state_formats(const StateFormats& formats, Problem& problem);

/// What graphs launch, in Megatron alone, of the parts that the model has and whose shapes are known beforehand.
[[nodiscard]] Errors take_cuda_graphs(const CudaGraphs& graphs, Problem& problem);

}  // namespace plan
