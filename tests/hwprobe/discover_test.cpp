#include "hwprobe/discover.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

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

TEST_CASE("a node of eight GPUs with its rails") {
  const Node node;
  const Machine m = look("hgx", node.sys);
  REQUIRE(m.gpus.size() == 8);
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

TEST_CASE("what is wrong with a GPU is found without measuring") {
  const Machine m = look("one", "/nonexistent");
  std::string codes;
  for (const MachineFinding& f : findings(m)) codes += f.code + " ";
  CHECK(codes == "PCIE_WIDTH MIG BUSY ");
}

TEST_CASE("no driver, a silent driver and no GPU say which") {
  CHECK(discover("libnvidia-ml-absent.so.1", "/nonexistent").no_gpu.find("libnvidia-ml.so.1 is missing") !=
        std::string::npos);
  CHECK(look("broken", "/nonexistent").no_gpu.find("nvmlInit returned 999") != std::string::npos);
  CHECK(look("none", "/nonexistent").no_gpu == "the driver lists no GPU");
}

TEST_CASE("a running GPU's clocks and what holds them back") {
  setenv("NVML_DOUBLE", "hgx", 1);
  const auto nvml = Nvml::load(PLAN_NVML_DOUBLE);
  REQUIRE(nvml.has_value());
  CHECK(nvml->pulse(0).sm_mhz == 1755);
  CHECK(nvml->pulse(0).watts == doctest::Approx(698));
  CHECK(nvml->pulse(0).celsius == 0);  // this driver lacks it
  CHECK(throttle_words(nvml->pulse(0).reasons) == std::vector<std::string>{"sw_power_cap"});
  CHECK(nvml->path(0, 1) == "NODE");
  CHECK(nvml->path(0, 7) == "SYS");
}

TEST_CASE("port rates as the kernel writes them") {
  CHECK(port_rate("400 Gb/sec (4X NDR)") == 50);
  CHECK(port_rate("12.5 Gb/sec (1X)") == doctest::Approx(1.5625));
  CHECK(port_rate("") == 0);
}
