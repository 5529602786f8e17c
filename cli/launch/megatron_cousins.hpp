#pragma once

#include <span>

#include "cli/launch/format.hpp"

/// Trainers that grew from Megatron-LM and say the same things under keys of their own.
namespace plan {

[[nodiscard]] bool is_gpt_neox(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_gpt_neox(std::span<const LaunchSource> files, const LaunchFacts& facts);
[[nodiscard]] bool is_nemo(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_nemo(std::span<const LaunchSource> files, const LaunchFacts& facts);

}  // namespace plan
