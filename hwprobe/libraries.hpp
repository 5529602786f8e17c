#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "hwprobe/launcher.hpp"

namespace plan {

/// The vendor's libraries that a probe loads.
enum class Vendor { CublasLt, Nccl, Cudnn };
inline constexpr std::array kVendors{Vendor::CublasLt, Vendor::Nccl, Vendor::Cudnn};
[[nodiscard]] std::string_view name(Vendor vendor);

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

/// The file that training would load: `told` if a file was named, else the first in LD_LIBRARY_PATH, which goes before
/// what a wheel of PyTorch brings, else that of the `nvidia-...` packages of the Python environment. Empty: the
/// system's search decides.
[[nodiscard]] std::string find_library(Vendor vendor, const std::string& told, const Variables& variables);

/// Loads a library (`path` empty: by its names through the system's search) and asks its version. Starts nothing on a
/// GPU.
[[nodiscard]] VendorLibrary look_at_library(Vendor vendor, const std::string& path);

}  // namespace plan
