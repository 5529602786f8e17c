#pragma once

#include <span>
#include <vector>

#include "cli/launch/format.hpp"

/// Galvatron's strategy of a job, one value for each layer: `galvatron_config_*.json`.
namespace plan {

[[nodiscard]] bool is_galvatron(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_galvatron(std::span<const LaunchSource> files, const LaunchFacts& facts);
[[nodiscard]] Result<std::vector<LaunchFile>> write_galvatron(const Plan& plan, const EmitOptions& options);

}  // namespace plan
