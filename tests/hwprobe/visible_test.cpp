#include "hwprobe/node/visible.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

using namespace plan;

namespace {

Machine node() {
  Machine machine;
  for (int i = 0; i < 4; ++i) machine.gpus.push_back({.index = i, .uuid = fmt::format("GPU-{}{}-0", i / 2, i)});
  return machine;
}

std::vector<int> seen(const char* list) {
  std::vector<int> all;
  for (const GpuFacts& gpu :
       visible_gpus(node().gpus, [&](std::string_view) { return std::optional<std::string>(list); }))
    all.push_back(gpu.index);
  return all;
}

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES by number and by UUID, as CUDA reads it") {
  CHECK(visible_gpus(node().gpus, [](std::string_view) { return std::nullopt; }).size() == 4);
  CHECK(seen("2,0") == std::vector<int>{2, 0});
  CHECK(seen("GPU-13-0, GPU-00") == std::vector<int>{3, 0});
  CHECK(seen("GPU-0").empty());  // two begin so
  CHECK(seen("1,7,2") == std::vector<int>{1});
  CHECK(seen("1,-1,2") == std::vector<int>{1});
  CHECK(seen("1,1") == std::vector<int>{1});
  CHECK(seen("").empty());
  CHECK(seen("MIG-5f3a/1/0").size() == 1);
  CHECK(seen("MIG-5f3a,MIG-77c0").size() == 1);  // one part is all that CUDA lists
  CHECK(seen("1,MIG-77c0,2") == std::vector<int>{1});
}

TEST_CASE("AMD's driver hides GPUs, and its runtime chooses among the rest") {
  std::vector<GpuFacts> all = node().gpus;
  for (GpuFacts& gpu : all) gpu.maker = Maker::Amd;
  const auto left = [&](const std::map<std::string, std::string, std::less<>>& set) {
    std::vector<int> indices;
    const Variables variables = [&](std::string_view name) {
      const auto found = set.find(name);
      return found == set.end() ? std::nullopt : std::optional(found->second);
    };
    for (const GpuFacts& gpu : visible_gpus(all, variables)) indices.push_back(gpu.index);
    return indices;
  };
  CHECK(left({}).size() == 4);
  CHECK(left({{"HIP_VISIBLE_DEVICES", "2,0"}}) == std::vector<int>{2, 0});
  CHECK(left({{"CUDA_VISIBLE_DEVICES", "3"}}) == std::vector<int>{3});
  CHECK(left({{"CUDA_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "1"}}) == std::vector<int>{1});
  CHECK(left({{"ROCR_VISIBLE_DEVICES", "GPU-13,2"}, {"HIP_VISIBLE_DEVICES", "1"}}) == std::vector<int>{2});
  CHECK(left({{"ROCR_VISIBLE_DEVICES", "1"}, {"HIP_VISIBLE_DEVICES", "1"}}).empty());
}

TEST_CASE("a variable that leaves no GPU is the reason why there is none") {
  Machine machine = node();
  keep_visible(machine, [](std::string_view) { return std::optional<std::string>("9"); });
  CHECK(machine.gpus.empty());
  CHECK(machine.no_gpu == "CUDA_VISIBLE_DEVICES=`9` leaves none of the 4 GPUs that the driver lists");
  machine = node();
  machine.gpus.resize(1);
  keep_visible(machine, [](std::string_view) { return std::optional<std::string>("9"); });
  CHECK(machine.no_gpu == "CUDA_VISIBLE_DEVICES=`9` leaves none of the 1 GPU that the driver lists");
}

TEST_CASE("lists of processors") {
  CHECK(read_cpu_list("0-2,8,10-11") == std::vector<int>{0, 1, 2, 8, 10, 11});
  CHECK(read_cpu_list("").empty());
  CHECK(read_cpu_list("x-3,5").size() == 1);
  CHECK_FALSE(processors_beside({}, "/nowhere").empty());  // all that this process may use
}

namespace {

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) all.push_back(cpu);
  return all;
}

}  // namespace

TEST_CASE("a GPU that is beside no processor in particular leaves a thread those that it was given, and no other") {
  const std::vector<int> whole = allowed_processors();
  for (const int one : {whole.front(), whole.back()}) {
    std::vector<int> left;
    std::thread given([&] {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(one, &set);
      if (sched_setaffinity(0, sizeof set, &set) == 0) left = processors_beside({}, "/nowhere");
    });
    given.join();
    CHECK(left == std::vector<int>{one});
  }
}

TEST_CASE("a rank runs on the processors beside its GPU, as far as it was given any of them") {
  const std::vector<int> before = allowed_processors();
  const int own = before.back(), elsewhere = before.size() > 1 ? before.front() : CPU_SETSIZE - 1;
  const std::filesystem::path sys = std::filesystem::temp_directory_path() / ("plan-sys-" + std::to_string(getpid()));
  const GpuFacts gpu{.index = 0, .pci_bus = "00000000:1B:00.0"};
  const auto beside = [&](const std::string& list) {
    const std::filesystem::path folder = sys / "bus/pci/devices/0000:1b:00.0";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "local_cpulist") << list << "\n";
    return processors_beside(gpu, sys.string());
  };
  CHECK(beside(std::to_string(own)) == std::vector<int>{own});
  CHECK(stands_beside({own}, gpu, sys.string()));
  CHECK_FALSE(stands_beside({elsewhere}, gpu, sys.string()));
  CHECK(beside(std::to_string(CPU_SETSIZE - 1)) == before);  // none of those it was given: all of them
  CHECK(beside("") == before);
  // A thread that is started afterwards, as the one that measures is, runs there, and so does what it pins in memory.
  bind_to({own});
  std::vector<int> inherited;
  std::thread([&] { inherited = allowed_processors(); }).join();
  CHECK(inherited == std::vector<int>{own});
  bind_to(before);
  bind_to({});  // nothing is known: nothing changes
  CHECK(allowed_processors() == before);
  std::filesystem::remove_all(sys);
}
