#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formulas/names.hpp"
#include "formulas/result.hpp"
#include "formulas/training.hpp"

namespace plan {

/// What CUDA graphs launch of a step: nothing, parts of every layer, or a whole iteration.
struct CudaGraphs {
  bool iteration = false;
  std::uint16_t scopes = 0;  ///< GraphScope bits
  bool operator==(const CudaGraphs&) const = default;
};

/// Reads `--cuda-graphs none`, `full` or `attn+moe_router`. Every mistake at once.
[[nodiscard]] Result<CudaGraphs> read_cuda_graphs(std::string_view text);

/// The same words back: `none`, `full` or parts.
[[nodiscard]] std::string cuda_graphs_text(const CudaGraphs& graphs);

}  // namespace plan
