// NVML through a table of function pointers with our own prototypes, so that neither its header nor its library is
// needed to build. A function that a driver lacks leaves its facts empty. Tested by tests/hwprobe/discover_test.cpp
// with a library made for the test.
#include "hwprobe/node/nvml.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>

#include "formulas/units.hpp"

namespace plan {
namespace {

using NvmlDevice = struct nvmlDevice_st*;

// Layouts of nvml.h; only what is read is named.
struct PciInfo {
  char legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct MemoryInfo {
  unsigned long long total, free, used;
};
struct Utilisation {
  unsigned gpu, memory;
};
/// nvmlGpuFabricInfoV_t, version 2.
struct FabricInfo {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
constexpr unsigned kFabricVersion = static_cast<unsigned>(sizeof(FabricInfo)) | 2u << 24;
constexpr unsigned char kFabricCompleted = 3;

constexpr int kSuccess = 0;
constexpr int kMostLinks = 18;
constexpr int kClockSm = 1, kClockMemory = 2, kCoreTemperature = 0;

struct Reason {
  std::uint64_t bit;
  std::string_view word;
};
constexpr Reason kReasons[] = {{0x04, "sw_power_cap"},        {0x08, "hw_slowdown"},    {0x20, "sw_thermal"},
                               {0x40, "hw_thermal"},          {0x80, "hw_power_brake"}, {0x10, "sync_boost"},
                               {0x02, "applications_clocks"}, {0x100, "display_clocks"}};

struct Level {
  int nvml;
  std::string_view word;
};
constexpr Level kLevels[] = {{10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};

}  // namespace

std::vector<std::string> throttle_words(std::uint64_t reasons) {
  std::vector<std::string> words;
  for (const Reason& reason : kReasons)
    if ((reasons & reason.bit) != 0) words.emplace_back(reason.word);
  return words;
}

std::string path_word(int nvml_level) {
  for (const Level& level : kLevels)
    if (level.nvml == nvml_level) return std::string(level.word);
  return {};
}

struct Nvml::Table {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_version)(int*) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice*) = nullptr;
  int (*device_name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*memory)(NvmlDevice, MemoryInfo*) = nullptr;
  int (*pci)(NvmlDevice, PciInfo*) = nullptr;
  int (*capability)(NvmlDevice, int*, int*) = nullptr;
  int (*link_gen)(NvmlDevice, unsigned*) = nullptr;
  int (*link_width)(NvmlDevice, unsigned*) = nullptr;
  int (*link_gen_max)(NvmlDevice, unsigned*) = nullptr;
  int (*link_width_max)(NvmlDevice, unsigned*) = nullptr;
  int (*nvlink_state)(NvmlDevice, unsigned, int*) = nullptr;
  int (*mig_mode)(NvmlDevice, unsigned*, unsigned*) = nullptr;
  int (*utilisation)(NvmlDevice, Utilisation*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, void*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*ancestor)(NvmlDevice, NvmlDevice, int*) = nullptr;
  int (*fabric)(NvmlDevice, FabricInfo*) = nullptr;

  template <class F>
  void find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
  }
  NvmlDevice device(int index) const {
    NvmlDevice d = nullptr;
    return handle != nullptr && handle(static_cast<unsigned>(index), &d) == kSuccess ? d : nullptr;
  }
  ~Table() {
    if (shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }

  void find_all() {
    find(init, "nvmlInit_v2");
    find(driver_version, "nvmlSystemGetDriverVersion");
    find(cuda_version, "nvmlSystemGetCudaDriverVersion_v2");
    find(count, "nvmlDeviceGetCount_v2");
    find(handle, "nvmlDeviceGetHandleByIndex_v2");
    find(device_name, "nvmlDeviceGetName");
    find(uuid, "nvmlDeviceGetUUID");
    find(memory, "nvmlDeviceGetMemoryInfo");
    find(pci, "nvmlDeviceGetPciInfo_v3");
    find(capability, "nvmlDeviceGetCudaComputeCapability");
    find(link_gen, "nvmlDeviceGetCurrPcieLinkGeneration");
    find(link_width, "nvmlDeviceGetCurrPcieLinkWidth");
    find(link_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration");
    find(link_width_max, "nvmlDeviceGetMaxPcieLinkWidth");
    find(nvlink_state, "nvmlDeviceGetNvLinkState");
    find(mig_mode, "nvmlDeviceGetMigMode");
    find(utilisation, "nvmlDeviceGetUtilizationRates");
    find(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    find(clock, "nvmlDeviceGetClockInfo");
    find(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    find(power, "nvmlDeviceGetPowerUsage");
    find(temperature, "nvmlDeviceGetTemperature");
    find(ancestor, "nvmlDeviceGetTopologyCommonAncestor");
    find(fabric, "nvmlDeviceGetGpuFabricInfoV");
  }

  GpuFacts facts(int index) const;
};

namespace {

/// A number that a function of the driver writes; 0 where it cannot.
int ask(int (*function)(NvmlDevice, unsigned*), NvmlDevice device) {
  unsigned value = 0;
  return function != nullptr && function(device, &value) == kSuccess ? static_cast<int>(value) : 0;
}

std::string ask_text(int (*function)(NvmlDevice, char*, unsigned), NvmlDevice device) {
  char text[96] = {};
  return function != nullptr && function(device, text, sizeof text) == kSuccess ? std::string(text) : std::string();
}

}  // namespace

GpuFacts Nvml::Table::facts(int index) const {
  GpuFacts gpu{.index = index};
  const NvmlDevice d = device(index);
  if (d == nullptr) return gpu;
  gpu.name = ask_text(device_name, d);
  gpu.uuid = ask_text(uuid, d);
  if (MemoryInfo m{}; memory != nullptr && memory(d, &m) == kSuccess) {
    gpu.total_gib = static_cast<double>(m.total) / kGiB;
    gpu.free_gib = static_cast<double>(m.free) / kGiB;
  }
  if (PciInfo p{}; pci != nullptr && pci(d, &p) == kSuccess) {
    p.bus_id[sizeof p.bus_id - 1] = 0;
    gpu.pci_bus = p.bus_id;
    gpu.pci_device_id = fmt::format("{:04x}", p.pci_device_id >> 16);
  }
  if (int major = 0, minor = 0; capability != nullptr && capability(d, &major, &minor) == kSuccess)
    gpu.compute_capability = fmt::format("{}.{}", major, minor);
  gpu.pcie_gen = ask(link_gen, d);
  gpu.pcie_width = ask(link_width, d);
  gpu.pcie_gen_max = ask(link_gen_max, d);
  gpu.pcie_width_max = ask(link_width_max, d);
  for (unsigned link = 0; nvlink_state != nullptr && link < kMostLinks; ++link)
    if (int on = 0; nvlink_state(d, link, &on) == kSuccess && on == 1) ++gpu.nvlinks;
  if (unsigned now = 0, next = 0; mig_mode != nullptr && mig_mode(d, &now, &next) == kSuccess) gpu.mig = now == 1;
  if (Utilisation u{}; utilisation != nullptr && utilisation(d, &u) == kSuccess)
    gpu.utilisation = static_cast<int>(u.gpu);
  FabricInfo info{kFabricVersion, {}, 0, 0, 0, 0};
  if (fabric != nullptr && fabric(d, &info) == kSuccess && info.state == kFabricCompleted && info.status == kSuccess) {
    bool any = false;  // HGX boards answer with a cluster of zeros: their fabric ends with the host
    for (const unsigned char byte : info.cluster) {
      any = any || byte != 0;
      gpu.clique += fmt::format("{:02x}", byte);
    }
    gpu.clique = any ? fmt::format("{}/{}", gpu.clique, info.clique) : std::string();
  }
  if (unsigned number = 0; processes != nullptr && processes(d, &number, nullptr) >= 0)
    gpu.processes = static_cast<int>(number);
  return gpu;
}

Nvml::Nvml(std::unique_ptr<Table> table) : table_(std::move(table)) {}
Nvml::~Nvml() = default;

Result<std::unique_ptr<Nvml>> Nvml::load(const char* library) {
  auto table = std::make_unique<Table>();
  table->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (table->library == nullptr)
    return fail(Error{"no_driver", "no NVIDIA driver here: libnvidia-ml.so.1 is missing", {}, {}});
  table->find_all();
  if (table->init == nullptr || table->count == nullptr || table->handle == nullptr)
    return fail(Error{"no_driver", "libnvidia-ml.so.1 is none that plan knows: nvmlInit_v2 is missing", {}, {}});
  if (const int status = table->init(); status != kSuccess)
    return fail(Error{"no_driver",
                      fmt::format("the NVIDIA driver does not answer: nvmlInit returned {}", status),
                      {},
                      {"`nvidia-smi` says more"}});
  table->find(table->shutdown, "nvmlShutdown");
  return std::unique_ptr<Nvml>(new Nvml(std::move(table)));
}

std::string Nvml::driver() const {
  char text[96] = {};
  const bool known = table_->driver_version != nullptr && table_->driver_version(text, sizeof text) == kSuccess;
  return known ? text : "";
}

int Nvml::cuda() const {
  int version = 0;
  return table_->cuda_version != nullptr && table_->cuda_version(&version) == kSuccess ? std::max(0, version) : 0;
}

std::vector<GpuFacts> Nvml::gpus() const {
  unsigned count = 0;
  std::vector<GpuFacts> all;
  if (table_->count(&count) != kSuccess) return all;
  for (unsigned i = 0; i < count && i < 1024; ++i) all.push_back(table_->facts(static_cast<int>(i)));
  return all;
}

GpuPulse Nvml::pulse(int gpu) const {
  GpuPulse now;
  const NvmlDevice d = table_->device(gpu);
  if (d == nullptr) return now;
  unsigned value = 0;
  if (table_->clock != nullptr && table_->clock(d, kClockSm, &value) == kSuccess) now.sm_mhz = value;
  if (table_->clock != nullptr && table_->clock(d, kClockMemory, &value) == kSuccess) now.memory_mhz = value;
  if (table_->power != nullptr && table_->power(d, &value) == kSuccess) now.watts = value / 1000.0;
  if (table_->temperature != nullptr && table_->temperature(d, kCoreTemperature, &value) == kSuccess)
    now.celsius = value;
  if (unsigned long long bits = 0; table_->reasons != nullptr && table_->reasons(d, &bits) == kSuccess)
    now.reasons = bits;
  return now;
}

std::string Nvml::path(int a, int b) const {
  int level = 0;
  const NvmlDevice first = table_->device(a), second = table_->device(b);
  if (first == nullptr || second == nullptr || table_->ancestor == nullptr) return {};
  return table_->ancestor(first, second, &level) == kSuccess ? path_word(level) : std::string();
}

}  // namespace plan
