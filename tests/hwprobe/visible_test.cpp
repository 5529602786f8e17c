#include "hwprobe/visible.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sched.h>

#include <map>

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
}

TEST_CASE("lists of processors") {
  CHECK(read_cpu_list("0-2,8,10-11") == std::vector<int>{0, 1, 2, 8, 10, 11});
  CHECK(read_cpu_list("").empty());
  CHECK(read_cpu_list("x-3,5").size() == 1);
  CHECK_FALSE(processors_beside({}, "/nowhere").empty());  // all that this process may use
}
