// Whose driver runs here. Tested by tests/hwprobe/discover_test.cpp.
#include "hwprobe/node/load_driver.hpp"

#include <filesystem>

#include "hwprobe/node/amd_smi.hpp"
#include "hwprobe/node/nvml.hpp"

namespace plan {

Result<std::unique_ptr<GpuDriver>> load_driver(const std::string& nvml, const std::string& amd_smi,
                                               const std::string& sys) {
  Result<std::unique_ptr<Nvml>> nvidia = Nvml::load(nvml.c_str());
  if (nvidia) return std::unique_ptr<GpuDriver>(*std::move(nvidia));
  Result<std::unique_ptr<AmdSmi>> amd = AmdSmi::load(amd_smi, sys);
  if (amd && !(*amd)->gpus().empty()) return std::unique_ptr<GpuDriver>(*std::move(amd));
  std::error_code status;
  const bool its_driver = std::filesystem::exists(std::filesystem::path(sys) / "module/amdgpu", status);
  return tl::unexpected(its_driver && !amd ? amd.error() : nvidia.error());
}

}  // namespace plan
