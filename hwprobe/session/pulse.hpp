#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hwprobe/node/nvml.hpp"

namespace plan {

/// Looks at one GPU ten times a second while it lives.
class PulseSampler {
 public:
  /// `uuid` as CUDA names the device: NVML, which is `library`, counts GPUs that this process does not see, too.
  explicit PulseSampler(const std::string& uuid, const std::string& library = "libnvidia-ml.so.1");
  ~PulseSampler();
  PulseSampler(const PulseSampler&) = delete;
  PulseSampler& operator=(const PulseSampler&) = delete;

  /// Looks since the last call.
  [[nodiscard]] std::vector<GpuPulse> take();

 private:
  std::mutex mutex_;
  std::vector<GpuPulse> pulses_{};
  std::atomic<bool> over_{false};
  std::thread thread_{};
};

/// Middle values of many looks.
struct PulseSummary {
  int samples = 0;
  double sm_mhz = 0, memory_mhz = 0, watts = 0;  ///< medians
  double celsius = 0;                            ///< highest
  std::uint64_t reasons = 0;                     ///< of any look
};
[[nodiscard]] PulseSummary summarise(const std::vector<GpuPulse>& pulses);

}  // namespace plan
