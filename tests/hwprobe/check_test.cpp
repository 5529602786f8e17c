// Screens of `plan probe --check` in situations that happen: each is a machine made of stand-ins for the driver, the
// vendor's libraries and /sys, and a file of tests/hwprobe/check holds what is printed. PLAN_UPDATE_GOLDEN=1 rewrites
// them.
#include "hwprobe/session/check.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "cli/report/probe/probe_check.hpp"
#include "hwprobe/node/visible.hpp"
#include "hwprobe/session/placement.hpp"

using namespace plan;
namespace fs = std::filesystem;

namespace {

/// A cluster node under a folder: two GPUs with an adapter each, and a Python environment with the vendor's libraries.
struct Node {
  fs::path root =
      fs::temp_directory_path() / fmt::format("plan-check-{}-{}", getpid(), ++nodes());  // loaded once a path
  std::map<std::string, std::string> variables{};
  std::string kind = "hgx", host = "node01", cuda = "13000", plugin = PLAN_PLUGIN_DOUBLE;
  int cores = 24;

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  void library(const std::string& file, const std::string& version) const {
    const fs::path at = root / "venv/lib/python3.12/site-packages/nvidia" / file;
    fs::remove(at);
    fs::create_directories(at.parent_path());
    if (!version.empty())
      fs::create_symlink(fs::path(PLAN_VERSIONS_FOLDER) / ("libversions_" + version + ".so"), at);
    else
      std::ofstream(at) << "no library\n";
  }
  static int& nodes() {
    static int count = 0;
    return count;
  }
  Node() {
    fs::remove_all(root);
    for (int i = 0; i < 2; ++i) {
      const std::string gpu = fmt::format("devices/pci{}/0000:{:02x}:00.0", i, 0x1b + i);
      const std::string nic = fmt::format("devices/pci{}/0000:{:02x}:01.0", i, 0x40 + i);
      put("sys/" + gpu + "/numa_node", std::to_string(i));
      put("sys/" + gpu + "/local_cpulist", i == 0 ? "0-23" : "24-47");
      put("sys/" + nic + "/numa_node", std::to_string(i));
      fs::create_directories(root / "sys/bus/pci/devices");
      fs::create_directory_symlink(root / "sys" / gpu,
                                   root / fmt::format("sys/bus/pci/devices/0000:{:02x}:00.0", 0x1b + i));
      const std::string port = fmt::format("sys/class/infiniband/mlx5_{}/", i);
      put(port + "ports/1/rate", "400 Gb/sec (4X NDR)");
      put(port + "ports/1/state", "4: ACTIVE");
      put(port + "ports/1/link_layer", "InfiniBand");
      fs::create_directory_symlink(root / "sys" / nic, root / port / "device");
    }
    put("sys/module/nvidia_peermem/refcnt", "0");
    library("cu13/lib/libcublasLt.so.13", "cublaslt_13");
    library("nccl/lib/libnccl.so.2", "nccl_new");
    library("cudnn/lib/libcudnn.so.9", "cudnn_9");
    variables["VIRTUAL_ENV"] = (root / "venv").string();
  }
  ~Node() { fs::remove_all(root); }

  CheckedRank rank(int number, int world) const {
    setenv("NVML_DOUBLE", kind.c_str(), 1);
    setenv("NVML_DOUBLE_CUDA", cuda.c_str(), 1);
    const Variables known = [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables.find(std::string(name));
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    const bool nvidia = kind != "none" && kind != "amd";
    Machine machine = discover(nvidia ? PLAN_NVML_DOUBLE : "/nowhere/libnvidia-ml.so.1", root / "sys", root / "proc",
                               kind == "amd" ? PLAN_AMD_SMI_DOUBLE : "/nowhere/libamd_smi.so");
    keep_visible(machine, known);
    Surroundings at{.machine = machine, .world = world, .plugin = plugin};
    at.processors.resize(static_cast<std::size_t>(cores));
    std::iota(at.processors.begin(), at.processors.end(), 24 * (number % 2));
    RankHello hello{
        .version = "1", .host = host, .local_rank = number % 2, .processors = cores, .driver = machine.driver};
    if (!machine.gpus.empty()) {
      at.gpu = number % static_cast<int>(machine.gpus.size());
      const GpuFacts& gpu = machine.gpus[static_cast<std::size_t>(at.gpu)];
      at.beside = stands_beside(at.processors, gpu, root / "sys");
      hello.gpu = gpu.index;
      hello.gpu_name = gpu.name;
      hello.gpu_uuid = gpu.uuid;
      hello.busy = busy_with(gpu);
    }
    const Result<RankCheck> sent = unpack_check(pack_check(check_rank(at, known)));
    REQUIRE(sent.has_value());
    return {number, hello, *sent};
  }

  /// The screen of a job, with the folders' names taken out.
  static std::string screen(const std::vector<CheckedRank>& ranks) {
    std::vector<RankHello> hellos;
    for (const CheckedRank& rank : ranks) hellos.push_back(rank.hello);
    Errors obstacles = inconsistencies(hellos);
    if (const auto placed = place_ranks(hellos); !placed)
      obstacles.insert(obstacles.end(), placed.error().begin(), placed.error().end());
    const std::vector<CheckFinding> found = check_job(ranks, obstacles);
    std::string text = check_text(ranks, found, Terminal{});
    const std::string folder = (fs::temp_directory_path() / "plan-check-").string();
    for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
      text.erase(at, text.find('/', at + folder.size()) - at);
    return text + fmt::format("exit status {}\n", would_measure(found) ? 0 : 1);
  }
};

void compare(const std::string& name, const std::string& screen) {
  CAPTURE(name);
  const fs::path file = fs::path(PLAN_CHECK_SCREENS) / (name + ".txt");
  if (std::getenv("PLAN_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << screen;
  std::ifstream stream(file);
  std::stringstream expected;
  expected << stream.rdbuf();
  CHECK(screen == expected.str());
}

}  // namespace

TEST_CASE("a node on which nothing is in the way") {
  const Node node;
  compare("ready", node.screen({node.rank(0, 2), node.rank(1, 2)}));
}

TEST_CASE("a login node without a driver, and without the plugin") {
  Node node;
  node.kind = "none", node.plugin = "";
  node.variables.erase("VIRTUAL_ENV");
  std::string screen = node.screen({node.rank(0, 1)});
  for (const Vendor vendor : kVendors)  // this machine's own libraries, if it has any, are not this test's business
    CHECK(screen.find(name(vendor)) != std::string::npos);
  node.variables["VIRTUAL_ENV"] = (node.root / "venv").string();
  compare("login-node", node.screen({node.rank(0, 1)}));
}

TEST_CASE("a driver that is older than the toolkit of the plugin and of cuBLASLt") {
  Node node;
  node.cuda = "12020";
  compare("old-driver", node.screen({node.rank(0, 2), node.rank(1, 2)}));
}

TEST_CASE("a GPU that others use, divided, in a narrow slot") {
  Node node;
  node.kind = "one";
  compare("busy", node.screen({node.rank(0, 1)}));
}

TEST_CASE("two ranks that see one GPU each, and it is the same") {
  Node node;
  node.variables["CUDA_VISIBLE_DEVICES"] = "0";
  compare("shared-gpu", node.screen({node.rank(0, 2), node.rank(1, 2)}));
}

TEST_CASE("GPUs of two kinds") {
  Node node;
  node.kind = "mixed";
  compare("two-kinds", node.screen({node.rank(0, 2), node.rank(1, 2)}));
}

TEST_CASE("GPUs of AMD's, of which the driver hides some and the runtime chooses among the rest") {
  Node node;
  node.kind = "amd";
  node.put("sys/module/amdgpu/version", "6.8.5");
  node.variables["ROCR_VISIBLE_DEVICES"] = "0,1";
  node.variables["HIP_VISIBLE_DEVICES"] = "1,0";
  node.library("../torch/lib/libhipblaslt.so", "hipblaslt");
  node.library("../torch/lib/librccl.so", "nccl_new");
  compare("amd", node.screen({node.rank(0, 2), node.rank(1, 2)}));
}

TEST_CASE("CUDA_VISIBLE_DEVICES leaves no GPU") {
  Node node;
  node.variables["CUDA_VISIBLE_DEVICES"] = "GPU-ffff";
  compare("none-visible", node.screen({node.rank(0, 1)}));
}

TEST_CASE("libraries that are missing, too old or broken") {
  Node node;
  node.library("nccl/lib/libnccl.so.2", "nccl_old");
  node.library("cudnn/lib/libcudnn.so.9", "cudnn_8");
  node.library("cu13/lib/libcublasLt.so.13", "");
  compare("libraries", node.screen({node.rank(0, 2), node.rank(1, 2)}));
}

TEST_CASE("two nodes that differ: few cores, a dead port, no peer memory, another NCCL, unequal ranks") {
  Node node;
  Node other;
  std::vector<CheckedRank> ranks{other.rank(0, 3), other.rank(1, 3)};
  node.host = "node02", node.cores = 1;
  node.library("nccl/lib/libnccl.so.2", "nccl_old");
  node.put("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN");
  fs::remove_all(node.root / "sys/module");
  ranks.push_back(node.rank(2, 3));
  ranks.back().hello.gpu_uuid = "GPU-another";
  ranks.back().hello.environment = "NCCL_IB_HCA=mlx5_0";
  compare("two-nodes", node.screen(ranks));
}
