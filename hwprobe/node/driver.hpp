#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plan {

/// Whose GPUs they are, and so whose libraries compute on them and talk between them.
enum class Maker { Nvidia, Amd };

/// One GPU as its driver describes it; what it does not tell stays 0 or empty.
struct GpuFacts {
  int index = 0;
  Maker maker = Maker::Nvidia;
  std::string name{}, uuid{}, pci_bus{}, pci_device_id{}, compute_capability{};
  double total_gib = 0, free_gib = 0;
  int pcie_gen = 0, pcie_width = 0, pcie_gen_max = 0, pcie_width_max = 0;
  int nvlinks = 0;      ///< active
  int processes = 0;    ///< that hold memory on it
  int utilisation = 0;  ///< percent
  bool mig = false;
  int numa = -1;         ///< NUMA node, where /sys says
  std::string clique{};  ///< of the NVLink fabric: cluster and clique, where the GPU is part of one
};

/// One look at a running GPU.
struct GpuPulse {
  double sm_mhz = 0, memory_mhz = 0, watts = 0, celsius = 0;
  std::uint64_t reasons = 0;  ///< bits of NVML's clocks-event reasons
};

/// A maker's management library, loaded at run time: a machine without its driver has none.
class GpuDriver {
 public:
  GpuDriver() = default;
  GpuDriver(const GpuDriver&) = delete;
  GpuDriver& operator=(const GpuDriver&) = delete;
  virtual ~GpuDriver() = default;

  [[nodiscard]] virtual std::string driver() const = 0;
  /// Newest CUDA that the driver runs, 13000 for 13.0; 0 where it does not say or is none of NVIDIA's.
  [[nodiscard]] virtual int cuda() const = 0;
  [[nodiscard]] virtual std::vector<GpuFacts> gpus() const = 0;
  [[nodiscard]] virtual GpuPulse pulse(int gpu) const = 0;
};

}  // namespace plan
