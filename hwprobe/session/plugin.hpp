#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "hwprobe/node/nvml.hpp"
#include "hwprobe/plugin_abi.h"

namespace plan {

/// The file of the plugin that measures GPUs of a maker.
[[nodiscard]] std::string_view plugin_name(Maker maker);

/// What one does who has none.
[[nodiscard]] std::string how_to_build(Maker maker);

/// Where it is looked for, first hit wins: PLAN_PROBE_PLUGIN, then beside and above the program.
[[nodiscard]] std::vector<std::string> plugin_candidates(Maker maker);

/// Version of the toolkit that a plugin was built with, 13000 for 13.0; the error says why it is no plugin of ours.
[[nodiscard]] Result<int> plugin_toolkit(const std::string& plugin);

/// What one point gave on one rank.
struct RankResult {
  int status = 0;  ///< PLAN_PROBE_ error
  std::string error{};
  plan_probe_result data{};
  std::vector<GpuPulse> pulses{};  ///< looks at the GPU since its last result
};

/// What to open a device with.
struct DeviceSetup {
  int device = 0, rank = 0, world = 1, local_rank = 0, local_world = 1;
  std::string nccl_library{}, cudnn_library{}, cublas_library{};
  double timeout_s = 10;
};

/// A loaded plugin with its device open.
class Device {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Device>> open(const std::string& plugin, const DeviceSetup& setup);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const plan_probe_device& facts() const { return facts_; }
  [[nodiscard]] RankResult measure(const plan_probe_point& point);
  /// The id of a new world of ranks; the error says why NCCL gives none.
  [[nodiscard]] Result<std::string> unique_id();
  [[nodiscard]] RankResult join(const std::string& id);
  void stop();

 private:
  Device() = default;
  const plan_probe_backend* backend_ = nullptr;
  void* state_ = nullptr;
  plan_probe_device facts_{};
};

}  // namespace plan
