#pragma once

#include <span>
#include <vector>

#include "cli/launch/format.hpp"

/// FlagScale's experiments: Megatron-LM's arguments by subject, and a process mesh for each kind of GPU.
namespace plan {

[[nodiscard]] bool is_flagscale(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_flagscale(std::span<const LaunchSource> files, const LaunchFacts& facts);
[[nodiscard]] Result<std::vector<LaunchFile>> write_flagscale(const Plan& plan, const EmitOptions& options);

/// The plan of one run of stages on its own kind of GPU, as if the model's other stages were not there.
[[nodiscard]] Plan plan_of_run(const Plan& plan, const PoolRun& run);

}  // namespace plan
