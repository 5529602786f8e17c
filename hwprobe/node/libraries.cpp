// Which cuBLASLt, NCCL and cuDNN a probe measures: those that training on this machine loads. A wheel of PyTorch brings
// its own, in packages beside it (nvidia/nccl/lib, nvidia/cublas/lib; nvidia/cu13/lib since CUDA 13), and finds them
// after LD_LIBRARY_PATH and before the system's. Tested by tests/hwprobe/libraries_test.cpp.
#include "hwprobe/node/libraries.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "hwprobe/text.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

struct VendorRow {
  std::string_view name;
  std::string_view function;                ///< that tells the version
  std::array<std::string_view, 3> sonames;  ///< the newest first
  bool tells = true;                        ///< the function can be called before anything else
};
using VendorRows = std::array<VendorRow, kVendors.size()>;
constexpr VendorRows kNvidia{
    VendorRow{"cuBLASLt", "cublasLtGetVersion", {"libcublasLt.so.13", "libcublasLt.so.12", ""}},
    VendorRow{"NCCL", "ncclGetVersion", {"libnccl.so.2", "", ""}},
    VendorRow{"cuDNN", "cudnnGetVersion", {"libcudnn.so.9", "", ""}}};
constexpr VendorRows kAmd{
    VendorRow{"hipBLASLt", "hipblasLtGetVersion", {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"}, false},
    VendorRow{"RCCL", "ncclGetVersion", {"librccl.so.1", "librccl.so", ""}}, VendorRow{}};

const VendorRow& row_of(Vendor vendor, Maker maker) {
  return (maker == Maker::Amd ? kAmd : kNvidia)[static_cast<std::size_t>(vendor)];
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts = pieces_of(list, ':');
  std::erase(parts, "");
  return parts;
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code status;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, status))
    if (std::error_code kind; entry.is_directory(kind)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

/// Folders of packages under the root of an installation of Python.
void add_packages_under(const fs::path& root, std::vector<std::string>& out) {
  std::error_code status;
  for (const char* lib : {"lib", "local/lib"})
    for (const fs::path& python : folders_in(root / lib)) {
      if (!python.filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        if (fs::is_directory(python / packages, status)) out.push_back((python / packages).string());
    }
}

/// A file of one of these names in a folder; empty if none is there.
std::string file_in(const fs::path& folder, const VendorRow& row) {
  std::error_code status;
  for (const std::string_view soname : row.sonames)
    if (!soname.empty() && fs::exists(folder / soname, status)) return (folder / soname).string();
  return {};
}

/// Versions are written in one number: 2.28.9 as 22809, cuDNN 9.19.0 as 91900, before 9 with thousands (8.9.7: 8907).
std::string version_text(std::size_t code) {
  if (code == 0) return {};
  const std::size_t major = code < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", code / major, code % major / 100, code % 100);
}

/// NCCL's status is an enum of its headers, which need not be here: to callers it is an int. Clang's check of a
/// function's exact type cannot know that.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
std::size_t
version_of(void* library, Vendor vendor, std::string_view function) {
  void* found = dlsym(library, std::string(function).c_str());
  if (found == nullptr) return 0;
  if (vendor != Vendor::Nccl) return reinterpret_cast<std::size_t (*)()>(found)();
  int code = 0;
  return reinterpret_cast<int (*)(int*)>(found)(&code) == 0 && code > 0 ? static_cast<std::size_t>(code) : 0;
}

}  // namespace

std::string_view name(Vendor vendor, Maker maker) { return row_of(vendor, maker).name; }

std::vector<Vendor> vendors_of(Maker maker) {
  std::vector<Vendor> all;
  for (const Vendor vendor : kVendors)
    if (!name(vendor, maker).empty()) all.push_back(vendor);
  return all;
}

std::vector<std::string> python_packages(const Variables& variables) {
  std::vector<std::string> all;
  const auto of = [&](const char* variable) { return variables(variable).value_or(""); };
  for (const std::string& folder : parts_of(of("PYTHONPATH"))) all.push_back(folder);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string root = of(variable); !root.empty()) add_packages_under(root, all);
  for (const std::string& folder : parts_of(of("PATH")))
    if (std::error_code status; fs::exists(fs::path(folder) / "python3", status)) {
      add_packages_under(fs::path(folder).parent_path(), all);
      break;  // the others are hidden behind it
    }
  if (const std::string home = of("HOME"); !home.empty()) add_packages_under(fs::path(home) / ".local", all);
  return all;
}

std::string find_library(Vendor vendor, const std::string& named, const Variables& variables, Maker maker) {
  if (!named.empty()) return named;
  const VendorRow& row = row_of(vendor, maker);
  for (const std::string& folder : parts_of(variables("LD_LIBRARY_PATH").value_or("")))
    if (std::string file = file_in(folder, row); !file.empty()) return file;
  for (const std::string& packages : python_packages(variables)) {
    if (maker == Maker::Amd)
      if (std::string file = file_in(fs::path(packages) / "torch/lib", row); !file.empty()) return file;
    for (const fs::path& part : folders_in(fs::path(packages) / "nvidia"))
      if (std::string file = file_in(part / "lib", row); !file.empty()) return file;
  }
  return {};
}

VendorLibrary look_at_library(Vendor vendor, const std::string& path, Maker maker) {
  const VendorRow& row = row_of(vendor, maker);
  VendorLibrary out;
  void* library = nullptr;
  std::vector<std::string> names{path};
  if (path.empty()) names.assign(row.sonames.begin(), row.sonames.end());
  for (const std::string& file : names) {
    if (file.empty() || library != nullptr) continue;
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = library == nullptr ? dlerror() : nullptr;
    if (out.missing.empty()) out.missing = why == nullptr ? file : why;
    if (library != nullptr) out.path = file;
  }
  if (library == nullptr) return out;
  out.missing.clear();
  if (row.tells) out.version = version_text(version_of(library, vendor, row.function));
  const bool right = row.tells ? !out.version.empty() : dlsym(library, std::string(row.function).c_str()) != nullptr;
  if (!right) out.missing = fmt::format("`{}` is none: it lacks {}", out.path, row.function);
  return out;  // it stays loaded: what it started, if anything, must keep its code
}

}  // namespace plan
