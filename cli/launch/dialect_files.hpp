#pragma once

#include <span>
#include <vector>

#include "cli/launch/format.hpp"

namespace plan {

[[nodiscard]] Result<std::vector<LaunchFile>> write_bridge(const Plan& plan, const EmitOptions& options);
[[nodiscard]] bool is_bridge(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_bridge(std::span<const LaunchSource> files, const LaunchFacts& facts);

[[nodiscard]] Result<std::vector<LaunchFile>> write_verl(const Plan& plan, const EmitOptions& options);
[[nodiscard]] bool is_verl(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_verl(std::span<const LaunchSource> files, const LaunchFacts& facts);

[[nodiscard]] Result<std::vector<LaunchFile>> write_nemo_rl(const Plan& plan, const EmitOptions& options);
[[nodiscard]] bool is_nemo_rl(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_nemo_rl(std::span<const LaunchSource> files, const LaunchFacts& facts);

[[nodiscard]] Result<std::vector<LaunchFile>> write_swift(const Plan& plan, const EmitOptions& options);
[[nodiscard]] bool is_swift(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_swift(std::span<const LaunchSource> files, const LaunchFacts& facts);

[[nodiscard]] Result<std::vector<LaunchFile>> write_llama_factory(const Plan& plan, const EmitOptions& options);
[[nodiscard]] bool is_llama_factory(const LaunchSource& source);
[[nodiscard]] Result<LaunchJob> read_llama_factory(std::span<const LaunchSource> files, const LaunchFacts& facts);

}  // namespace plan
