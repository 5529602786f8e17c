// What a machine is made of: GPUs from their driver, adapters, sockets and PCI bridges from /sys.
// Tested by tests/hwprobe/discover_test.cpp.
#include "hwprobe/node/discover.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "formulas/text.hpp"
#include "hwprobe/node/load_driver.hpp"
#include "hwprobe/node/visible.hpp"
#include "hwprobe/text.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

constexpr int kBusyPercent = 2;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> all;
  std::error_code status;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, status)) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

/// Folders that two device paths share, front to back.
int shared_depth(const fs::path& a, const fs::path& b) {
  int depth = 0;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end() && *i == *j; ++i, ++j) ++depth;
  return depth;
}

int nearest_gpu(const fs::path& device, const std::vector<GpuFacts>& gpus, const fs::path& sys) {
  int best = -1, depth = 0;
  for (const GpuFacts& gpu : gpus) {
    std::error_code status;
    const fs::path path = fs::canonical(sys / "bus/pci/devices" / sysfs_bus(gpu.pci_bus), status);
    if (status) continue;
    const int shared = shared_depth(device, path);
    if (shared <= depth) continue;
    depth = shared;
    best = gpu.index;
  }
  return best;
}

std::vector<NicFacts> adapters(const std::vector<GpuFacts>& gpus, const fs::path& sys) {
  std::vector<NicFacts> nics;
  for (const fs::path& adapter : entries(sys / "class/infiniband"))
    for (const fs::path& port : entries(adapter / "ports")) {
      NicFacts nic{.device = adapter.filename().string()};
      nic.gb_s = port_rate(first_line(port / "rate"));
      nic.link_layer = first_line(port / "link_layer");
      nic.active = first_line(port / "state").find("ACTIVE") != std::string::npos;
      std::error_code status;
      const fs::path device = fs::canonical(adapter / "device", status);
      if (!status) {
        nic.numa = static_cast<int>(number_in(first_line(device / "numa_node")).value_or(-1));
        nic.nearest_gpu = nearest_gpu(device, gpus, sys);
      }
      nics.push_back(std::move(nic));
    }
  return nics;
}

int numa_nodes(const fs::path& sys) {
  int count = 0;
  for (const fs::path& path : entries(sys / "devices/system/node")) {
    const std::string name = path.filename().string();
    if (name.starts_with("node") && name.size() > 4 && std::isdigit(static_cast<unsigned char>(name[4])) != 0) ++count;
  }
  return count;
}

/// NCCL reaches GPU memory from an adapter through the peer-memory module, or through DMA-BUF, which of NVIDIA's
/// drivers only the open kernel modules export.
std::string direct_access(Maker maker, const fs::path& sys, const fs::path& proc) {
  std::error_code status;
  if (maker == Maker::Amd) return fs::exists(sys / "kernel/mm/memory_peers/amdkfd", status) ? "amdkfd" : "DMA-BUF";
  for (const char* module : {"nvidia_peermem", "nv_peer_mem"})
    if (fs::exists(sys / "module" / module, status)) return module;
  const bool open = first_line(proc / "driver/nvidia/version").find("Open Kernel Module") != std::string::npos;
  return open ? "DMA-BUF" : "";
}

}  // namespace

std::string sysfs_bus(std::string bus) {
  bus = lowered(std::move(bus));
  return bus.size() > 12 ? bus.substr(bus.size() - 12) : bus;
}

double port_rate(const std::string& text) {
  const std::vector<std::string_view> words = words_of_line(text);
  if (words.size() < 2 || words[1] != "Gb/sec") return 0;
  return number_in(words[0]).value_or(0) / 8;
}

namespace {

/// "MemTotal:       2113421236 kB", which are KiB (proc_meminfo(5)).
double host_memory_gib(const fs::path& proc) {
  std::ifstream file(proc / "meminfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.size() == 3 && words[0] == "MemTotal:" && words[2] == "kB")
      return number_in(words[1]).value_or(0) / (1024.0 * 1024.0);
  }
  return 0;
}

}  // namespace

Machine discover(const char* nvml_library, const std::string& sys, const std::string& proc,
                 const std::string& amd_smi) {
  Machine machine;
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) == 0) machine.host = host;
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  machine.numa_nodes = numa_nodes(sys);
  machine.host_memory_gib = host_memory_gib(proc);
  if (const Result<std::unique_ptr<GpuDriver>> loaded = load_driver(nvml_library, amd_smi, sys)) {
    const GpuDriver& driver = **loaded;
    machine.driver = driver.driver();
    machine.cuda = driver.cuda();
    machine.gpus = driver.gpus();
    machine.host_gpus = static_cast<int>(machine.gpus.size());
    if (machine.gpus.empty()) machine.no_gpu = "the driver lists no GPU";
  } else {
    machine.no_gpu = loaded.error()[0].message;
  }
  if (!machine.gpus.empty()) machine.maker = machine.gpus.front().maker;
  for (GpuFacts& gpu : machine.gpus) gpu.numa = numa_of(gpu, sys);
  machine.nics = adapters(machine.gpus, sys);
  machine.rdma = direct_access(machine.maker, sys, proc);
  return machine;
}

std::string busy_with(const GpuFacts& gpu) {
  if (gpu.processes <= 0 && gpu.utilisation <= kBusyPercent) return {};
  return fmt::format("{} other processes, {} % busy", gpu.processes, gpu.utilisation);
}

std::vector<MachineFinding> findings(const Machine& machine) {
  std::vector<MachineFinding> all;
  for (const GpuFacts& gpu : machine.gpus) {
    const std::string where = fmt::format("GPU {}", gpu.index);
    if (gpu.pcie_width > 0 && gpu.pcie_width < gpu.pcie_width_max)
      all.push_back({"PCIE_WIDTH", where, fmt::format("PCIe x{} (x{} expected)", gpu.pcie_width, gpu.pcie_width_max)});
    if (gpu.mig) all.push_back({"MIG", where, "MIG is on: collectives are not measured on parts of a GPU"});
    if (std::string busy = busy_with(gpu); !busy.empty()) all.push_back({"BUSY", where, std::move(busy)});
  }
  for (const NicFacts& nic : machine.nics)
    if (!nic.active) all.push_back({"PORT_DOWN", nic.device, "its port is not active"});
  return all;
}

}  // namespace plan
