#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"

/// Switches that the search may turn on, as they are typed.
namespace plan {

/// What of a model's layers CUDA graphs of parts can launch.
struct GraphParts {
  std::uint16_t scopes = 0;
  std::string words{};
};
[[nodiscard]] GraphParts graph_parts(const Model& model);

/// As `--offload` has them: "attn_norm+core_attn".
[[nodiscard]] std::string module_words(std::uint16_t modules);
/// What these switches of a job with them on leave in host memory, as `--offload` has it; empty if nothing.
[[nodiscard]] std::string offload_words(const Problem& switched, SwitchMask on);
/// Those that are on in a job, as they are typed: {"--cuda-graphs attn+mlp", "--offload optimizer,core_attn"}.
[[nodiscard]] std::vector<std::string> switch_words(const Problem& switched);

}  // namespace plan
