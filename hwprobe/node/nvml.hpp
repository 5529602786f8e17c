#pragma once

#include <memory>
#include <string>

#include "formulas/result.hpp"
#include "hwprobe/node/driver.hpp"

namespace plan {

/// Words for the reasons that slow a GPU down: sw_power_cap, hw_slowdown, ... Idle and user settings are none.
[[nodiscard]] std::vector<std::string> throttle_words(std::uint64_t reasons);

/// How two GPUs of a node reach each other (`nvidia-smi topo -m`'s words): NV, PIX, PXB, PHB, NODE, SYS.
[[nodiscard]] std::string path_word(int nvml_level);

/// NVIDIA's management library.
class Nvml final : public GpuDriver {
 public:
  /// Loads `library` (libnvidia-ml.so.1 of the system's search by default). The error says what is missing.
  [[nodiscard]] static Result<std::unique_ptr<Nvml>> load(const char* library = "libnvidia-ml.so.1");
  ~Nvml() override;

  [[nodiscard]] std::string driver() const override;
  [[nodiscard]] int cuda() const override;
  [[nodiscard]] std::vector<GpuFacts> gpus() const override;
  [[nodiscard]] GpuPulse pulse(int gpu) const override;
  /// Path between two GPUs as a word; empty if NVML does not say.
  [[nodiscard]] std::string path(int a, int b) const;

 private:
  struct Table;
  explicit Nvml(std::unique_ptr<Table> table);
  std::unique_ptr<Table> table_;
};

}  // namespace plan
