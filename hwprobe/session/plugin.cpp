// Loads the library that measures (plugin_abi.h). Tested by tests/hwprobe/probe_ranks_test.cpp with a library made for
// the test.
#include "hwprobe/session/plugin.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace plan {
namespace {

template <std::size_t N>
void terminate(char (&text)[N]) {
  text[N - 1] = 0;
}

/// The plugin's table. The library stays: a thread of it that hangs in a driver must keep its code.
Result<const plan_probe_backend*> load_backend(const std::string& plugin) {
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return fail(
        Error{"no_plugin", fmt::format("the measuring plugin does not load: {}", why == nullptr ? plugin : why)});
  }
  const auto entry = reinterpret_cast<plan_probe_backend_v1_function>(dlsym(library, "plan_probe_backend_v1"));
  const plan_probe_backend* backend = entry == nullptr ? nullptr : entry();
  if (backend == nullptr || backend->abi != PLAN_PROBE_ABI || backend->size < sizeof(plan_probe_backend))
    return fail(Error{"no_plugin",
                      fmt::format("`{}` is no measuring plugin of this version of plan", plugin),
                      {},
                      {"build plan and its plugin together"}});
  return backend;
}

}  // namespace

std::string_view plugin_name(Maker maker) {
  return maker == Maker::Amd ? "libplan_probe_hip.so" : "libplan_probe_cuda.so";
}

std::string how_to_build(Maker maker) {
  return maker == Maker::Amd ? "build plan where ROCm's clang and HIP are: `cmake -S . -B build -DPLAN_HIP=ON`"
                             : "build plan where the CUDA toolkit and nccl.h are: `cmake -S . -B build -DPLAN_CUDA=ON`";
}

Result<int> plugin_toolkit(const std::string& plugin) {
  const Result<const plan_probe_backend*> loaded = load_backend(plugin);
  if (!loaded) return tl::unexpected(loaded.error());
  return (*loaded)->toolkit;
}

std::vector<std::string> plugin_candidates(Maker maker) {
  if (const char* chosen = std::getenv("PLAN_PROBE_PLUGIN"); chosen != nullptr && *chosen != 0) return {chosen};
  std::error_code status;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", status).parent_path();
  std::vector<std::string> found;
  for (const std::filesystem::path& folder : {program / "lib/plan", program.parent_path() / "lib/plan"})
    if (const std::filesystem::path file = folder / plugin_name(maker); std::filesystem::exists(file, status))
      found.push_back(file.string());
  return found;
}

Result<std::shared_ptr<Device>> Device::open(const std::string& plugin, const DeviceSetup& setup) {
  std::shared_ptr<Device> device(new Device);
  Result<const plan_probe_backend*> loaded = load_backend(plugin);
  if (!loaded) return tl::unexpected(loaded.error());
  device->backend_ = *loaded;
  const auto path = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  const plan_probe_setup c{.device = setup.device,
                           .rank = setup.rank,
                           .world = setup.world,
                           .local_rank = setup.local_rank,
                           .local_world = setup.local_world,
                           .nccl_library = path(setup.nccl_library),
                           .cudnn_library = path(setup.cudnn_library),
                           .cublas_library = path(setup.cublas_library),
                           .timeout_seconds = setup.timeout_s};
  char error[512] = {};
  if (device->backend_->open(&c, &device->state_, &device->facts_, error, sizeof error) != PLAN_PROBE_OK) {
    device->state_ = nullptr;
    return fail(Error{"no_device", fmt::format("GPU {} cannot be opened: {}", setup.device, error)});
  }
  plan_probe_device& f = device->facts_;
  terminate(f.name), terminate(f.uuid), terminate(f.pci_bus), terminate(f.capability), terminate(f.runtime),
      terminate(f.nccl), terminate(f.cudnn), terminate(f.cublas);
  return device;
}

Device::~Device() {
  if (state_ != nullptr) backend_->close(state_);
}

RankResult Device::measure(const plan_probe_point& point) {
  RankResult result;
  char error[512] = {};
  result.status = backend_->measure(state_, &point, &result.data, error, sizeof error);
  result.error = error;
  result.data.count = std::max(0, std::min(result.data.count, PLAN_PROBE_SAMPLES));
  terminate(result.data.text);
  return result;
}

Result<std::string> Device::unique_id() {
  unsigned char id[PLAN_PROBE_ID_BYTES] = {};
  char error[512] = {};
  if (backend_->unique_id(state_, id, error, sizeof error) != PLAN_PROBE_OK) return fail(Error{"no_nccl", error});
  return std::string(reinterpret_cast<const char*>(id), sizeof id);
}

RankResult Device::join(const std::string& id) {
  RankResult result;
  unsigned char bytes[PLAN_PROBE_ID_BYTES] = {};
  std::copy_n(id.begin(), std::min(id.size(), sizeof bytes), bytes);
  char error[512] = {};
  result.status = backend_->join(state_, bytes, error, sizeof error);
  result.error = error;
  return result;
}

void Device::stop() {
  if (state_ != nullptr) backend_->stop(state_);
}

}  // namespace plan
