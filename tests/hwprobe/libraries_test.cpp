#include "hwprobe/node/libraries.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "hwprobe/session/plugin.hpp"

using namespace plan;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("plan-libraries-" + std::to_string(getpid()));
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  /// A link `at` under the folder to one of the libraries that state a version.
  std::string put(const std::string& at, const std::string& version) const {
    fs::create_directories((path / at).parent_path());
    fs::create_symlink(fs::path(PLAN_VERSIONS_FOLDER) / ("libversions_" + version + ".so"), path / at);
    return (path / at).string();
  }
};

Variables with(std::map<std::string, std::string> all) {
  return [all = std::move(all)](std::string_view name) -> std::optional<std::string> {
    const auto found = all.find(std::string(name));
    return found == all.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace

TEST_CASE("libraries are those of a flag, LD_LIBRARY_PATH, the Python environment, the system, in this order") {
  const Folder folder;
  const std::string root = folder.path.string();
  const std::string wheel = folder.put("venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "nccl_new");
  const std::string hpc = folder.put("hpc/libnccl.so.2", "nccl_old");
  const auto found = [&](const std::string& told, std::map<std::string, std::string> variables) {
    return find_library(Vendor::Nccl, told, with(std::move(variables)));
  };
  CHECK(found("", {}).empty());
  CHECK(found("", {{"VIRTUAL_ENV", root + "/venv"}}) == wheel);
  CHECK(found("", {{"CONDA_PREFIX", root + "/venv"}}) == wheel);
  CHECK(found("", {{"PYTHONPATH", "/nowhere:" + root + "/venv/lib/python3.11/site-packages"}}) == wheel);
  CHECK(found("", {{"VIRTUAL_ENV", root + "/venv"}, {"LD_LIBRARY_PATH", "/nowhere:" + root + "/hpc"}}) == hpc);
  CHECK(found("mine.so", {{"VIRTUAL_ENV", root + "/venv"}, {"LD_LIBRARY_PATH", root + "/hpc"}}) == "mine.so");
  fs::create_directories(folder.path / "venv/bin");
  fs::create_symlink("/usr/bin/python3", folder.path / "venv/bin/python3");  // as in a virtual environment
  CHECK(found("", {{"PATH", "/nowhere:" + root + "/venv/bin:/usr/bin"}}) == wheel);
  CHECK(found("", {{"HOME", root}}).empty());
}

TEST_CASE("packages of CUDA 12 and of CUDA 13, the newer where both are") {
  const Folder folder;
  const std::string packages = "lib/python3.12/site-packages/nvidia/";
  const Variables variables = with({{"VIRTUAL_ENV", folder.path.string()}});
  const std::string old = folder.put(packages + "cublas/lib/libcublasLt.so.12", "cublaslt_12");
  CHECK(find_library(Vendor::CublasLt, "", variables) == old);
  CHECK(look_at_library(Vendor::CublasLt, old).version == "12.8.4");
  const std::string now = folder.put(packages + "cublas/lib/libcublasLt.so.13", "cublaslt_13");
  CHECK(find_library(Vendor::CublasLt, "", variables) == now);
  fs::remove_all(folder.path / packages / "cublas");
  const std::string joint = folder.put(packages + "cu13/lib/libcublasLt.so.13", "cublaslt_13");
  CHECK(find_library(Vendor::CublasLt, "", variables) == joint);
  CHECK(look_at_library(Vendor::CublasLt, joint).version == "13.1.0");
}

TEST_CASE("AMD's libraries lie in PyTorch's folder; one tells its version, the other only that it is there") {
  const Folder folder;
  const Variables variables = with({{"VIRTUAL_ENV", folder.path.string()}});
  const std::string rccl = folder.put("lib/python3.12/site-packages/torch/lib/librccl.so", "nccl_new");
  CHECK(find_library(Vendor::Nccl, "", variables, Maker::Amd) == rccl);
  CHECK(find_library(Vendor::Nccl, "", variables).empty());
  CHECK(look_at_library(Vendor::Nccl, rccl, Maker::Amd).version == "2.28.9");
  const VendorLibrary blas = look_at_library(Vendor::CublasLt, folder.put("b", "hipblaslt"), Maker::Amd);
  CHECK(blas.missing.empty());
  CHECK(blas.version.empty());
  CHECK(look_at_library(Vendor::CublasLt, rccl, Maker::Amd).missing.find("lacks hipblasLtGetVersion") !=
        std::string::npos);
  CHECK(vendors_of(Maker::Amd) == std::vector{Vendor::CublasLt, Vendor::Nccl});
  CHECK(name(Vendor::CublasLt, Maker::Amd) == "hipBLASLt");
}

TEST_CASE("a library states its version, or why it is none") {
  const Folder folder;
  CHECK(look_at_library(Vendor::Nccl, folder.put("n", "nccl_new")).version == "2.28.9");
  CHECK(look_at_library(Vendor::Cudnn, folder.put("c9", "cudnn_9")).version == "9.19.0");
  CHECK(look_at_library(Vendor::Cudnn, folder.put("c8", "cudnn_8")).version == "8.9.7");
  const VendorLibrary other = look_at_library(Vendor::Nccl, folder.put("wrong", "cudnn_9"));
  CHECK(other.version.empty());
  CHECK(other.missing.find("lacks ncclGetVersion") != std::string::npos);
  const VendorLibrary none = look_at_library(Vendor::Nccl, (folder.path / "none.so").string());
  CHECK(none.version.empty());
  CHECK(none.missing.find("none.so: cannot open shared object file") != std::string::npos);
}

TEST_CASE("the plugin is the one that the environment names, and what is empty names none") {
  unsetenv("PLAN_PROBE_PLUGIN");
  const std::vector<std::string> own = plugin_candidates(Maker::Nvidia);
  setenv("PLAN_PROBE_PLUGIN", "", 1);
  CHECK(plugin_candidates(Maker::Nvidia) == own);
  setenv("PLAN_PROBE_PLUGIN", "/opt/mine.so", 1);
  CHECK(plugin_candidates(Maker::Nvidia) == std::vector<std::string>{"/opt/mine.so"});
  unsetenv("PLAN_PROBE_PLUGIN");
}
