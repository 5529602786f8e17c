#pragma once

#include <string>
#include <vector>

#include "hwprobe/node/machine.hpp"

namespace plan {

/// Looks at this machine through NVML or AMD SMI, `/sys` and `/proc`; all of them can be replaced for tests.
[[nodiscard]] Machine discover(const char* nvml_library = "libnvidia-ml.so.1", const std::string& sys = "/sys",
                               const std::string& proc = "/proc", const std::string& amd_smi = {});

/// A PCI device as /sys calls it: "00000000:1B:00.0" of NVML is "0000:1b:00.0".
[[nodiscard]] std::string sysfs_bus(std::string bus);
/// "400 Gb/sec (4X NDR)" in GB/s; 0 if it is none.
[[nodiscard]] double port_rate(const std::string& text);

/// What a look at the machine already says is wrong: a slot narrower than the GPU, MIG, a busy GPU, a dead port.
struct MachineFinding {
  std::string code{}, where{}, text{};
};
[[nodiscard]] std::vector<MachineFinding> findings(const Machine& machine);
/// Who else uses a GPU, in words; empty if nobody does.
[[nodiscard]] std::string busy_with(const GpuFacts& gpu);

}  // namespace plan
