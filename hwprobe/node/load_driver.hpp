#pragma once

#include <memory>
#include <string>

#include "formulas/result.hpp"
#include "hwprobe/node/driver.hpp"

namespace plan {

/// The driver of this machine's GPUs: NVIDIA's through `nvml`, else AMD's through `amd_smi` (empty: by the names of its
/// releases). `sys` is where the kernel describes devices. The error says what is missing, of AMD's where the kernel
/// runs their driver.
[[nodiscard]] Result<std::unique_ptr<GpuDriver>> load_driver(const std::string& nvml = "libnvidia-ml.so.1",
                                                             const std::string& amd_smi = {},
                                                             const std::string& sys = "/sys");

}  // namespace plan
