#pragma once

#include <memory>
#include <string>

#include "formulas/result.hpp"
#include "hwprobe/node/driver.hpp"

namespace plan {

/// AMD's management library.
class AmdSmi final : public GpuDriver {
 public:
  /// Loads `library`; empty: libamd_smi.so by the names of its releases, then where ROCm installs it. `sys` is where
  /// the kernel describes devices. The error says what is missing.
  [[nodiscard]] static Result<std::unique_ptr<AmdSmi>> load(const std::string& library = {},
                                                            const std::string& sys = "/sys");
  ~AmdSmi() override;

  [[nodiscard]] std::string driver() const override;
  [[nodiscard]] int cuda() const override { return 0; }
  [[nodiscard]] std::vector<GpuFacts> gpus() const override;
  [[nodiscard]] GpuPulse pulse(int gpu) const override;

 private:
  struct Table;
  explicit AmdSmi(std::unique_ptr<Table> table);
  std::unique_ptr<Table> table_;
};

}  // namespace plan
