#include "hwprobe/node/discover.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "hwprobe/node/load_driver.hpp"
#include "hwprobe/node/nvml.hpp"
#include "hwprobe/session/pulse.hpp"
#include "temporary_folder.hpp"

using namespace plan;
namespace fs = std::filesystem;

namespace {

struct Node {
  fs::path sys = fs::temp_directory_path() / ("plan-sys-" + std::to_string(::getpid()));
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((sys / path).parent_path());
    std::ofstream(sys / path) << text << "\n";
  }
  Node() {
    const std::string bridge = "devices/pci0000:15/0000:15:01.0/";
    put(bridge + "0000:1b:00.0/class", "gpu");
    put("devices/pci0000:90/0000:1c:00.0/class", "gpu");
    put(bridge + "0000:18:00.0/numa_node", "0");
    put("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
    put("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
    put("class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand");
    put("class/infiniband/mlx5_1/ports/1/rate", "200 Gb/sec (4X HDR)");
    put("class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
    put("devices/system/node/node0/cpulist", "0-47");
    put("devices/system/node/node1/cpulist", "48-95");
    fs::create_directory_symlink(sys / bridge / "0000:18:00.0", sys / "class/infiniband/mlx5_0/device");
    fs::create_directories(sys / "bus/pci/devices");
    fs::create_directory_symlink(sys / bridge / "0000:1b:00.0", sys / "bus/pci/devices/0000:1b:00.0");
    fs::create_directory_symlink(sys / "devices/pci0000:90/0000:1c:00.0", sys / "bus/pci/devices/0000:1c:00.0");
  }
  ~Node() { fs::remove_all(sys); }
};

Machine look(const char* kind, const fs::path& sys) {
  setenv("NVML_DOUBLE", kind, 1);
  return discover(PLAN_NVML_DOUBLE, sys.string());
}

}  // namespace

TEST_CASE("a host's memory is what Linux counts of it") {
  const fs::path proc = fs::temp_directory_path() / "plan-discover-meminfo";
  fs::create_directories(proc);
  const auto seen = [&](const std::string& text) {
    std::ofstream(proc / "meminfo") << text;
    return discover(PLAN_NVML_DOUBLE, "/nowhere", proc.string()).host_memory_gib;
  };
  CHECK(seen("MemTotal:       2113421312 kB\nMemFree:        1 kB\n") == 2015.515625);
  CHECK(seen("MemFree:        1 kB\nMemTotal:       1048576 kB\n") == 1);
  CHECK(seen("MemTotal: lots kB\n") == 0);
  CHECK(seen("") == 0);
  fs::remove_all(proc);
}

TEST_CASE("a node of eight GPUs with its rails") {
  const Node node;
  const Machine m = look("hgx", node.sys);
  REQUIRE(m.gpus.size() == 8);
  CHECK(m.host_gpus == 8);
  CHECK(m.no_gpu.empty());
  CHECK(m.driver == "580.95.05");
  CHECK(m.gpus[3].uuid == "GPU-00000003-0000-0000-0000-000000000000");
  CHECK(m.gpus[0].pci_device_id == "2330");
  CHECK(m.gpus[0].compute_capability == "9.0");
  CHECK(m.gpus[0].nvlinks == 18);
  CHECK(m.gpus[0].total_gib == doctest::Approx(79.65).epsilon(0.001));
  CHECK(m.numa_nodes == 2);
  REQUIRE(m.nics.size() == 2);
  CHECK(m.nics[0].gb_s == 50);
  CHECK(m.nics[0].active);
  CHECK(m.nics[0].nearest_gpu == 0);  // the same bridge
  CHECK_FALSE(m.nics[1].active);
  REQUIRE(findings(m).size() == 1);
  CHECK(findings(m)[0].code == "PORT_DOWN");
}

TEST_CASE("GPUs whose NVLink ends with the host have no fabric, those of a rack all of one clique") {
  unsetenv("NVML_DOUBLE_CLIQUE");
  for (const GpuFacts& gpu : look("hgx", "/nonexistent").gpus) CHECK(gpu.clique.empty());
  setenv("NVML_DOUBLE_CLIQUE", "3", 1);
  const Machine rack = look("hgx", "/nonexistent");
  unsetenv("NVML_DOUBLE_CLIQUE");
  for (const GpuFacts& gpu : rack.gpus) CHECK(gpu.clique == "ab" + std::string(30, '0') + "/3");
}

TEST_CASE("what is wrong with a GPU is found without measuring") {
  const Machine m = look("one", "/nonexistent");
  std::string codes;
  for (const MachineFinding& f : findings(m)) codes += f.code + " ";
  CHECK(codes == "PCIE_WIDTH MIG BUSY ");
}

// plan-measuring(7): "if another process holds memory or utilisation > 2 %".
TEST_CASE("a GPU is busy with another's process, or with more than a fiftieth of its time") {
  for (int processes = 0; processes < 3; ++processes)
    for (int percent = 0; percent <= 100; ++percent) {
      CAPTURE(processes);
      CAPTURE(percent);
      GpuFacts gpu;
      gpu.processes = processes, gpu.utilisation = percent;
      CHECK(busy_with(gpu).empty() == (processes == 0 && percent * 50 <= 100));
    }
}

TEST_CASE("a link whose width the driver does not tell is no narrow one") {
  Machine machine;
  machine.gpus.resize(1);
  GpuFacts& gpu = machine.gpus.front();
  const auto narrow = [&] {
    for (const MachineFinding& finding : findings(machine))
      if (finding.code == "PCIE_WIDTH") return true;
    return false;
  };
  gpu.pcie_width_max = 16;
  for (const auto& entry : {std::pair{0, false}, {1, true}, {8, true}, {15, true}, {16, false}}) {
    gpu.pcie_width = entry.first;
    CAPTURE(gpu.pcie_width);
    CHECK(narrow() == entry.second);
  }
}

TEST_CASE("no driver, a silent driver and no GPU say which") {
  CHECK(discover("libnvidia-ml-absent.so.1", "/nonexistent").no_gpu.find("libnvidia-ml.so.1 is missing") !=
        std::string::npos);
  CHECK(look("broken", "/nonexistent").no_gpu.find("nvmlInit returned 999") != std::string::npos);
  CHECK(look("none", "/nonexistent").no_gpu == "the driver lists no GPU");
}

TEST_CASE("a running GPU's clocks and what holds them back") {
  setenv("NVML_DOUBLE", "hgx", 1);
  const auto loaded = Nvml::load(PLAN_NVML_DOUBLE);
  REQUIRE(loaded.has_value());
  const Nvml* nvml = loaded->get();
  CHECK(nvml->pulse(0).sm_mhz == 1755);
  CHECK(nvml->pulse(0).watts == doctest::Approx(698));
  CHECK(nvml->pulse(0).celsius == 0);  // this driver lacks it
  CHECK(throttle_words(nvml->pulse(0).reasons) == std::vector<std::string>{"sw_power_cap"});
  CHECK(nvml->path(0, 1) == "NODE");
  CHECK(nvml->path(0, 7) == "SYS");
}

TEST_CASE("levels of topology and reasons of clocks have the numbers of nvml.h and the words of nvidia-smi") {
  const std::map<int, std::string> levels{{10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"}};
  for (int level = 0; level <= 60; ++level) {
    const auto known = levels.find(level);
    CHECK(path_word(level) == (known == levels.end() ? "" : known->second));
  }
  // nvmlClocksEventReason...: ApplicationsClocksSetting, SwPowerCap, HwSlowdown, SyncBoost, SwThermalSlowdown,
  // HwThermalSlowdown, HwPowerBrakeSlowdown, DisplayClockSetting; the first bit is an idle GPU's, which slows nothing.
  const std::vector<std::string> words{
      "",           "applications_clocks", "sw_power_cap",   "hw_slowdown",   "sync_boost",
      "sw_thermal", "hw_thermal",          "hw_power_brake", "display_clocks"};
  for (std::size_t bit = 0; bit < words.size() + 4; ++bit) {
    const bool known = bit > 0 && bit < words.size();
    CHECK(throttle_words(std::uint64_t{1} << bit) ==
          (known ? std::vector<std::string>{words[bit]} : std::vector<std::string>{}));
  }
}

TEST_CASE("every GPU of a node is looked at while it is measured, the first and the last, and none that is not there") {
  const Machine m = look("hgx", "/nonexistent");
  REQUIRE(m.gpus.size() == 8);
  const auto looks = [](const std::string& uuid) {
    PulseSampler sampler(uuid, PLAN_NVML_DOUBLE);
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    std::vector<GpuPulse> all = sampler.take();
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
         all.empty() && uuid.starts_with("GPU-") && std::chrono::steady_clock::now() < end;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      all = sampler.take();
    }
    return all;
  };
  for (const GpuFacts& gpu : m.gpus) {
    CAPTURE(gpu.uuid);
    const std::vector<GpuPulse> all = looks(gpu.uuid);
    REQUIRE_FALSE(all.empty());
    CHECK(all[0].sm_mhz == 1755);
  }
  CHECK(looks("another").empty());
}

TEST_CASE("the GPU nearest to an adapter shares most bridges with it, and none does where no GPU is on the bus") {
  std::mt19937 random(7);
  int near = 0, none = 0;
  for (int round = 0; round < 60; ++round) {
    const TemporaryFolder sys;
    const auto place = [&](const std::string& bus) {  // a device below up to three bridges
      fs::path path = sys.path() / "devices";
      path /= random() % 2 == 0 ? "pci0000:15" : "pci0000:90";
      for (std::size_t bridges = random() % 3; bridges > 0; --bridges)
        path /= "0000:15:0" + std::to_string(random() % 2);
      fs::create_directories(path / bus);
      return path / bus;
    };
    std::map<int, fs::path> gpus;
    fs::create_directories(sys.path() / "bus/pci/devices");
    for (int i = 0; i < 8; ++i) {
      if (random() % (1 + static_cast<unsigned>(round) % 4) != 0) continue;
      std::ostringstream bus;
      bus << "0000:" << std::hex << 0x1b + i << ":00.0";
      gpus[i] = place(bus.str());
      fs::create_directory_symlink(gpus[i], sys.path() / "bus/pci/devices" / bus.str());
    }
    if (round % 10 == 0) fs::remove_all(sys.path() / "bus"), gpus.clear();
    const fs::path nic = place("0000:18:00.0");
    sys.write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    fs::create_directory_symlink(nic, sys.path() / "class/infiniband/mlx5_0/device");
    int best = -1;
    std::ptrdiff_t most = 0;
    for (const auto& [gpu, path] : gpus) {
      const auto [a, b] = std::mismatch(path.begin(), path.end(), nic.begin(), nic.end());
      if (const auto shared = std::distance(path.begin(), a); shared > most) most = shared, best = gpu;
    }
    const Machine m = look("hgx", sys.path());
    REQUIRE(m.nics.size() == 1);
    CHECK(m.nics[0].nearest_gpu == best);
    (best < 0 ? none : near)++;
  }
  CHECK(near > 20);
  CHECK(none > 5);
}

TEST_CASE("a board of AMD's: in the order of the bus, with the kernel's facts beside the library's") {
  const Node node;
  const auto board = [&](const char* kind) {
    setenv("AMD_SMI_DOUBLE", kind, 1);
    return discover("libnvidia-ml-absent.so.1", node.sys.string(), "/nonexistent", PLAN_AMD_SMI_DOUBLE);
  };
  setenv("NVML_DOUBLE", "hgx", 1);
  node.put("devices/pci0000:90/0000:1c:00.0/unique_id", "ba3f9d24a1c05e77");
  node.put("devices/pci0000:90/0000:1c:00.0/device", "0x74a1");
  node.put("devices/pci0000:90/0000:1c:00.0/current_link_speed", "16.0 GT/s PCIe");
  node.put("devices/pci0000:90/0000:1c:00.0/max_link_speed", "32.0 GT/s PCIe");
  node.put("devices/pci0000:90/0000:1c:00.0/current_link_width", "8");
  node.put("devices/pci0000:90/0000:1c:00.0/max_link_width", "16");
  node.put("module/amdgpu/version", "6.8.5");
  const Machine m = board("board");
  CHECK(m.maker == Maker::Amd);
  CHECK(m.driver == "6.8.5");
  CHECK(m.cuda == 0);
  CHECK(m.rdma == "DMA-BUF");
  REQUIRE(m.gpus.size() == 8);
  for (std::size_t i = 0; i < m.gpus.size(); ++i) CHECK(m.gpus[i].index == static_cast<int>(i));
  const GpuFacts &first = m.gpus[0], &second = m.gpus[1];
  CHECK(first.pci_bus == "0000:1b:00.0");
  CHECK(first.uuid == "GPU-0000000000000000");  // the kernel does not say
  CHECK(second.pci_bus == "0000:1c:00.0");
  CHECK(second.uuid == "GPU-ba3f9d24a1c05e77");
  CHECK(second.name == "AMD Instinct MI300X");
  CHECK(second.pci_device_id == "74a1");
  CHECK(second.pcie_gen == 4);
  CHECK(second.pcie_gen_max == 5);
  CHECK(second.total_gib == doctest::Approx(191.984));
  CHECK(second.free_gib == doctest::Approx(191.984 - 0.27734));
  REQUIRE(findings(m).size() >= 1);
  CHECK(findings(m)[0].code == "PCIE_WIDTH");
  const Machine busy = board("one");
  REQUIRE(busy.gpus.size() == 1);
  CHECK(busy_with(busy.gpus[0]) == "3 other processes, 97 % busy");
  CHECK(board("broken").no_gpu.find("amdsmi_init returned 34") != std::string::npos);
  CHECK(discover("libnvidia-ml-absent.so.1", node.sys.string(), "/nonexistent", "libamd_smi-absent.so")
            .no_gpu.find("libamd_smi.so") != std::string::npos);
  CHECK(discover(PLAN_NVML_DOUBLE, node.sys.string(), "/nonexistent", PLAN_AMD_SMI_DOUBLE).maker == Maker::Nvidia);
}

TEST_CASE("the clocks of AMD's GPU, and its average power where it tells no other") {
  setenv("AMD_SMI_DOUBLE", "board", 1);
  const auto driver = load_driver("libnvidia-ml-absent.so.1", PLAN_AMD_SMI_DOUBLE, "/nonexistent");
  REQUIRE(driver.has_value());
  const GpuPulse now = (*driver)->pulse(3);
  CHECK(now.sm_mhz == 2100);
  CHECK(now.memory_mhz == 1300);
  CHECK(now.watts == 742);
  CHECK(now.celsius == 0);  // this release lacks it
  CHECK((*driver)->pulse(8).sm_mhz == 0);
}

TEST_CASE("a place on the bus of AMD's, bit by bit, is the name that the kernel has for it") {
  // amdsmi_bdf_t: three bits of function, five of device, eight of bus, the rest is the domain.
  struct Place {
    std::uint64_t function : 3, device : 5, bus : 8, domain : 48;
  };
  setenv("AMD_SMI_DOUBLE", "one", 1);
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const Place place{random() % 8, random() % 32, random() % 256, round % 2 == 0 ? 0 : random() & 0xffff};
    setenv("AMD_SMI_DOUBLE_BUS", std::to_string(std::bit_cast<std::uint64_t>(place)).c_str(), 1);
    std::ostringstream text;
    text << std::hex << std::setfill('0') << std::setw(4) << place.domain << ":" << std::setw(2) << place.bus << ":"
         << std::setw(2) << place.device << "." << place.function;
    const Machine m = discover("libnvidia-ml-absent.so.1", "/nonexistent", "/nonexistent", PLAN_AMD_SMI_DOUBLE);
    REQUIRE(m.gpus.size() == 1);
    CHECK(m.gpus[0].pci_bus == text.str());
  }
  unsetenv("AMD_SMI_DOUBLE_BUS");
}

TEST_CASE("port rates as the kernel writes them") {
  CHECK(port_rate("400 Gb/sec (4X NDR)") == 50);
  CHECK(port_rate("12.5 Gb/sec (1X)") == doctest::Approx(1.5625));
  CHECK(port_rate("") == 0);
}
