#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formulas/result.hpp"

namespace plan {

/// One GPU as its driver describes it; what it does not tell stays 0 or empty.
struct GpuFacts {
  int index = 0;
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

/// Words for the reasons that slow a GPU down: sw_power_cap, hw_slowdown, ... Idle and user settings are none.
[[nodiscard]] std::vector<std::string> throttle_words(std::uint64_t reasons);

/// How two GPUs of a node reach each other (`nvidia-smi topo -m`'s words): NV, PIX, PXB, PHB, NODE, SYS.
[[nodiscard]] std::string path_word(int nvml_level);

/// NVIDIA's management library, loaded at run time: a machine without a driver has none.
class Nvml {
 public:
  /// Loads `library` (libnvidia-ml.so.1 of the system's search by default). The error says what is missing.
  [[nodiscard]] static Result<Nvml> load(const char* library = "libnvidia-ml.so.1");
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  [[nodiscard]] std::string driver() const;
  [[nodiscard]] int cuda() const;  ///< newest CUDA that the driver runs, 13000 for 13.0; 0 where it does not say
  [[nodiscard]] std::vector<GpuFacts> gpus() const;
  [[nodiscard]] GpuPulse pulse(int gpu) const;
  /// Path between two GPUs as a word; empty if NVML does not say.
  [[nodiscard]] std::string path(int a, int b) const;

 private:
  struct Table;
  explicit Nvml(std::unique_ptr<Table> table);
  std::unique_ptr<Table> table_;
};

}  // namespace plan
