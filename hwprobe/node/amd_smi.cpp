// AMD SMI through a table of function pointers with our own prototypes, so that neither its header nor its library is
// needed to build. Only functions are used whose interface has been the same since ROCm 6.0, and of structures only the
// fields that come first in all releases; the rest is the kernel's, under /sys.
// Sources: include/amd_smi/amdsmi.h of github.com/ROCm/amdsmi, releases 6.0 to 6.3; kernel documentation of amdgpu.
// Tested by tests/hwprobe/discover_test.cpp with a library made for the test.
#include "hwprobe/node/amd_smi.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "formulas/units.hpp"
#include "hwprobe/text.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;
using Handle = void*;

constexpr int kSuccess = 0;
constexpr std::uint64_t kGpusAlone = 1u << 1;  // AMDSMI_INIT_AMD_GPUS
constexpr int kVram = 0, kSystemClock = 0, kMemoryClock = 4, kHotSpot = 1, kCurrent = 0;
constexpr unsigned kMostHandles = 1024;

/// Room for any release's version of a structure.
template <class First>
struct Roomy {
  First first{};
  std::array<unsigned char, 4096> rest{};
};
struct Activity {
  std::uint32_t compute, memory, media;
};
struct Power {
  std::uint32_t now, average;
};
struct Name {
  char text[256];
};

/// "0000:c1:00.0" from the bits of amdsmi_bdf_t.
std::string bus_text(std::uint64_t bits) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", bits >> 16, bits >> 8 & 0xff, bits >> 3 & 0x1f, bits & 7);
}

/// Generation of PCI Express by its rate: "32.0 GT/s PCIe" is 5.
int generation(const std::string& speed) {
  const double rate = number_in(speed.substr(0, speed.find(' '))).value_or(0);
  int generation = 0;
  for (const double each : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) generation += rate >= each ? 1 : 0;
  return generation;
}

}  // namespace

struct AmdSmi::Table {
  void* library = nullptr;
  fs::path sys{};
  int (*init)(std::uint64_t) = nullptr;
  int (*shutdown)() = nullptr;
  int (*sockets)(std::uint32_t*, Handle*) = nullptr;
  int (*processors)(Handle, std::uint32_t*, Handle*) = nullptr;
  int (*bus)(Handle, std::uint64_t*) = nullptr;
  int (*uuid)(Handle, unsigned*, char*) = nullptr;
  int (*asic)(Handle, Roomy<Name>*) = nullptr;
  int (*memory_total)(Handle, int, std::uint64_t*) = nullptr;
  int (*memory_used)(Handle, int, std::uint64_t*) = nullptr;
  int (*activity)(Handle, Roomy<Activity>*) = nullptr;
  int (*processes)(Handle, std::uint32_t*, void*) = nullptr;
  int (*clock)(Handle, int, Roomy<std::uint32_t>*) = nullptr;
  int (*power)(Handle, Roomy<Power>*) = nullptr;
  int (*temperature)(Handle, int, int, std::int64_t*) = nullptr;
  std::vector<Handle> handles{};  ///< in the order of their places on the bus, which is the runtime's

  template <class F>
  void find(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library, name));
  }
  ~Table() {
    if (shutdown != nullptr) shutdown();
    if (library != nullptr) dlclose(library);
  }

  void find_all() {
    find(init, "amdsmi_init");
    find(sockets, "amdsmi_get_socket_handles");
    find(processors, "amdsmi_get_processor_handles");
    find(bus, "amdsmi_get_gpu_device_bdf");
    find(uuid, "amdsmi_get_gpu_device_uuid");
    find(asic, "amdsmi_get_gpu_asic_info");
    find(memory_total, "amdsmi_get_gpu_memory_total");
    find(memory_used, "amdsmi_get_gpu_memory_usage");
    find(activity, "amdsmi_get_gpu_activity");
    find(processes, "amdsmi_get_gpu_process_list");
    find(clock, "amdsmi_get_clock_info");
    find(power, "amdsmi_get_power_info");
    find(temperature, "amdsmi_get_temp_metric");
  }

  std::uint64_t place(Handle gpu) const {
    std::uint64_t bits = 0;
    return bus != nullptr && bus(gpu, &bits) == kSuccess ? bits : 0;
  }

  /// All that such a function lists: it says how many there are before it writes them.
  template <class List>
  static std::vector<Handle> listed(const List& list) {
    std::uint32_t count = 0;
    if (list(&count, nullptr) != kSuccess) return {};
    std::vector<Handle> found(std::min(count, kMostHandles));
    if (count = static_cast<std::uint32_t>(found.size()); list(&count, found.data()) != kSuccess) return {};
    found.resize(std::min<std::size_t>(count, found.size()));
    return found;
  }

  void list_handles() {
    for (Handle socket : listed(sockets)) {
      const std::vector<Handle> found =
          listed([&](std::uint32_t* count, Handle* out) { return processors(socket, count, out); });
      handles.insert(handles.end(), found.begin(), found.end());
    }
    std::stable_sort(handles.begin(), handles.end(), [&](Handle a, Handle b) { return place(a) < place(b); });
  }

  /// What the driver and the kernel say of a device.
  GpuFacts facts(int index) const;
};

GpuFacts AmdSmi::Table::facts(int index) const {
  GpuFacts gpu{.index = index, .maker = Maker::Amd};
  Handle const handle = handles[static_cast<std::size_t>(index)];
  gpu.pci_bus = bus_text(place(handle));
  const fs::path device = sys / "bus/pci/devices" / gpu.pci_bus;
  if (Roomy<Name> name; asic != nullptr && asic(handle, &name) == kSuccess) {
    name.first.text[sizeof name.first.text - 1] = 0;
    gpu.name = name.first.text;
  }
  // The runtime's name for a GPU is its number of 16 digits, which the kernel prints; the library's has a form of its
  // own.
  if (const std::string number = first_line(device / "unique_id"); !number.empty()) {
    gpu.uuid = "GPU-" + number;
  } else if (char text[96] = {}; uuid != nullptr) {
    if (unsigned size = sizeof text - 1; uuid(handle, &size, text) == kSuccess) gpu.uuid = text;
  }
  const std::string id = first_line(device / "device");
  gpu.pci_device_id = id.starts_with("0x") ? id.substr(2) : id;
  std::uint64_t total = 0, used = 0;
  if (memory_total != nullptr && memory_total(handle, kVram, &total) == kSuccess)
    gpu.total_gib = static_cast<double>(total) / kGiB;
  if (memory_used != nullptr && memory_used(handle, kVram, &used) == kSuccess)
    gpu.free_gib = static_cast<double>(total - std::min(total, used)) / kGiB;
  gpu.pcie_gen = generation(first_line(device / "current_link_speed"));
  gpu.pcie_gen_max = generation(first_line(device / "max_link_speed"));
  gpu.pcie_width = static_cast<int>(number_in(first_line(device / "current_link_width")).value_or(0));
  gpu.pcie_width_max = static_cast<int>(number_in(first_line(device / "max_link_width")).value_or(0));
  if (Roomy<Activity> now; activity != nullptr && activity(handle, &now) == kSuccess && now.first.compute <= 100)
    gpu.utilisation = static_cast<int>(now.first.compute);
  if (std::uint32_t count = 0; processes != nullptr && processes(handle, &count, nullptr) == kSuccess)
    gpu.processes = static_cast<int>(count);
  return gpu;
}

AmdSmi::AmdSmi(std::unique_ptr<Table> table) : table_(std::move(table)) {}
AmdSmi::~AmdSmi() = default;

Result<std::unique_ptr<AmdSmi>> AmdSmi::load(const std::string& library, const std::string& sys) {
  auto table = std::make_unique<Table>();
  table->sys = sys;
  std::vector<std::string> names{library};
  if (library.empty())
    names = {"libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24",
             "/opt/rocm/lib/libamd_smi.so"};
  for (const std::string& name : names)
    if (table->library == nullptr) table->library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (table->library == nullptr)
    return fail(Error{"no_driver",
                      "there is AMD's driver, but not the library that tells of its GPUs: libamd_smi.so",
                      {},
                      {"install amd-smi-lib of ROCm, or name its folder in LD_LIBRARY_PATH"}});
  table->find_all();
  if (table->init == nullptr || table->sockets == nullptr || table->processors == nullptr)
    return fail(Error{"no_driver", "libamd_smi.so is none that plan knows: amdsmi_init is missing"});
  if (const int status = table->init(kGpusAlone); status != kSuccess)
    return fail(Error{"no_driver",
                      fmt::format("AMD's driver does not answer: amdsmi_init returned {}", status),
                      {},
                      {"`amd-smi list` says more"}});
  table->find(table->shutdown, "amdsmi_shut_down");
  table->list_handles();
  return std::unique_ptr<AmdSmi>(new AmdSmi(std::move(table)));
}

std::string AmdSmi::driver() const { return first_line(table_->sys / "module/amdgpu/version"); }

std::vector<GpuFacts> AmdSmi::gpus() const {
  std::vector<GpuFacts> all;
  for (std::size_t i = 0; i < table_->handles.size(); ++i) all.push_back(table_->facts(static_cast<int>(i)));
  return all;
}

GpuPulse AmdSmi::pulse(int gpu) const {
  GpuPulse now;
  if (gpu < 0 || static_cast<std::size_t>(gpu) >= table_->handles.size()) return now;
  Handle const handle = table_->handles[static_cast<std::size_t>(gpu)];
  Roomy<std::uint32_t> value;
  if (table_->clock != nullptr && table_->clock(handle, kSystemClock, &value) == kSuccess) now.sm_mhz = value.first;
  if (table_->clock != nullptr && table_->clock(handle, kMemoryClock, &value) == kSuccess) now.memory_mhz = value.first;
  if (Roomy<Power> watts; table_->power != nullptr && table_->power(handle, &watts) == kSuccess) {
    constexpr std::uint32_t kMost = 10000;  // what a GPU cannot tell is all ones
    now.watts = watts.first.now > 0 && watts.first.now < kMost ? watts.first.now
                : watts.first.average < kMost                  ? watts.first.average
                                                               : 0;
  }
  if (std::int64_t celsius = 0;
      table_->temperature != nullptr && table_->temperature(handle, kHotSpot, kCurrent, &celsius) == kSuccess)
    now.celsius = static_cast<double>(celsius) / (celsius > 1000 ? 1000 : 1);  // some releases count thousandths
  return now;
}

}  // namespace plan
