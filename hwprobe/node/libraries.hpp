#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "hwprobe/node/driver.hpp"
#include "hwprobe/start/launcher.hpp"

namespace plan {

/// The vendor's libraries that a probe loads, by NVIDIA's names for them; AMD has a hipBLASLt and an RCCL in their
/// places, and none for attention.
enum class Vendor { CublasLt, Nccl, Cudnn };
inline constexpr std::array kVendors{Vendor::CublasLt, Vendor::Nccl, Vendor::Cudnn};
/// Its name; empty where this maker has none.
[[nodiscard]] std::string_view name(Vendor vendor, Maker maker = Maker::Nvidia);
/// Those that a maker has.
[[nodiscard]] std::vector<Vendor> vendors_of(Maker maker);

/// One of them, as found.
struct VendorLibrary {
  std::string path{};     ///< file, or the name that the loader was asked for
  std::string version{};  ///< that it states, "2.28.9"
  std::string missing{};  ///< why there is none; empty if there is
};
using VendorLibraries = std::array<VendorLibrary, kVendors.size()>;

/// Folders of Python packages of the environment in use, the first that is asked first: PYTHONPATH, VIRTUAL_ENV,
/// CONDA_PREFIX, the folder of the `python3` that PATH finds, and packages of the user.
[[nodiscard]] std::vector<std::string> python_packages(const Variables& variables);

/// The file that training would load: `named` if a file was named, else the first in LD_LIBRARY_PATH, which goes before
/// what a wheel of PyTorch brings, else that of the `nvidia-...` packages of the Python environment; AMD's lie in
/// PyTorch's own folder. Empty: the system's search decides.
[[nodiscard]] std::string find_library(Vendor vendor, const std::string& named, const Variables& variables,
                                       Maker maker = Maker::Nvidia);

/// Loads a library (`path` empty: by its names through the system's search) and asks its version. Starts nothing on a
/// GPU; hipBLASLt tells its version to who has started it alone.
[[nodiscard]] VendorLibrary look_at_library(Vendor vendor, const std::string& path, Maker maker = Maker::Nvidia);

}  // namespace plan
