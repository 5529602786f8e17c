#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/request/table/args.hpp"
#include "formulas/hardware_profile.hpp"
#include "hwprobe/import/import.hpp"
#include "hwprobe/node/discover.hpp"
#include "hwprobe/sweep/sweep.hpp"
#include "presets/store.hpp"

namespace plan {

/// What `plan probe` was asked for, read and checked.
struct ProbeOptions {
  Depth depth = Depth::Quick;
  std::optional<double> budget_s{};
  std::vector<std::string> formats{};  ///< empty: bf16, and fp8 where the GPU has it
  Model model{};
  std::vector<int> tp{};
  std::int64_t tokens = 0;
  std::optional<Cluster> expected{};  ///< --gpu or --cluster
  int gpus = 0;                       ///< --gpus: for --dry-run
  double timeout_s = 10;
  ImportHints hints{};  ///< --op and --ranks
};

/// All mistakes at once.
[[nodiscard]] Result<ProbeOptions> read_probe_options(const Args& args);

/// "120s", "90", "5min", "2 h" in seconds.
[[nodiscard]] Result<double> read_duration(std::string_view flag, std::string_view text);

/// The data sheet to expect of a machine: the one that was asked for, else that of its GPU.
[[nodiscard]] Result<Cluster> expected_cluster(const ProbeOptions& options, const std::string& device,
                                               double memory_gib, const StoreOptions& store);

/// The sweep of a job of `ranks` GPUs, `per_node` of them in each node.
[[nodiscard]] SweepRequest sweep_request(const ProbeOptions& options, const Cluster& expected, int ranks, int per_node);

/// A profile from a file.
[[nodiscard]] Result<HardwareProfile> read_profile_file(const std::string& path);

}  // namespace plan
