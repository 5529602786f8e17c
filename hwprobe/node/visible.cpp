// Which GPUs are this process's, and which processors are close to one. Tested by tests/hwprobe/visible_test.cpp.
#include "hwprobe/node/visible.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hwprobe/text.hpp"

namespace plan {
namespace {

std::vector<std::string> entries_of(const std::string& list) {
  std::vector<std::string> words = pieces_of(list, ',');
  for (std::string& word : words) std::erase(word, ' ');
  return words;
}

/// The GPU that an entry names; null if none or, by the beginning of a UUID, several do.
const GpuFacts* named(const std::string& word, const std::vector<GpuFacts>& all) {
  if (word.starts_with("GPU-")) {
    const auto fits = [&](const GpuFacts& gpu) { return gpu.uuid.starts_with(word); };
    const auto first = std::find_if(all.begin(), all.end(), fits);
    if (first == all.end() || std::find_if(first + 1, all.end(), fits) != all.end()) return nullptr;
    return &*first;
  }
  const auto number = number_in(word);
  const bool right = number && *number >= 0 && *number < static_cast<double>(all.size());
  return right ? &all[static_cast<std::size_t>(*number)] : nullptr;
}

std::string sys_of_gpu(const GpuFacts& gpu, const std::string& sys, const char* file) {
  std::ifstream stream(std::filesystem::path(sys) / "bus/pci/devices" / sysfs_bus(gpu.pci_bus) / file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

namespace {

std::vector<GpuFacts> left_by(const std::vector<GpuFacts>& all, const std::string& list) {
  std::vector<GpuFacts> seen;
  for (const std::string& word : entries_of(list)) {
    if (word.starts_with("MIG-")) {  // NVML lists the whole GPU alone: its part has a name and nothing more
      if (seen.empty()) seen.push_back({.uuid = word, .mig = true});
      break;  // CUDA lists one part, and nothing beside it
    }
    const GpuFacts* gpu = named(word, all);
    const bool again = gpu != nullptr && std::any_of(seen.begin(), seen.end(),
                                                     [&](const GpuFacts& other) { return other.uuid == gpu->uuid; });
    if (gpu == nullptr || again) break;
    seen.push_back(*gpu);
  }
  return seen;
}

/// Variables that choose among GPUs, in the order in which they are applied; of each pair the first that is set. AMD's
/// driver hides GPUs, and its runtime chooses among the rest, by CUDA's variable too.
std::vector<std::vector<const char*>> choosing(Maker maker) {
  if (maker == Maker::Amd) return {{"ROCR_VISIBLE_DEVICES"}, {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}};
  return {{"CUDA_VISIBLE_DEVICES"}};
}

}  // namespace

std::vector<GpuFacts> visible_gpus(const std::vector<GpuFacts>& all, const Variables& variables) {
  std::vector<GpuFacts> seen = all;
  for (const auto& names : choosing(all.empty() ? Maker::Nvidia : all.front().maker))
    for (const char* name : names)
      if (const std::optional<std::string> list = variables(name)) {
        seen = left_by(seen, *list);
        break;
      }
  return seen;
}

std::string choice_of_gpus(Maker maker, const Variables& variables, bool named) {
  std::string text;
  for (const auto& names : choosing(maker))
    for (const char* name : names)
      if (const std::optional<std::string> list = variables(name)) {
        if (!text.empty()) text += named ? ", " : "; ";
        text += named ? fmt::format("{}=`{}`", name, list->substr(0, 80)) : *list;
        break;
      }
  return text;
}

void keep_visible(Machine& machine, const Variables& variables) {
  if (machine.gpus.empty()) return;
  const std::size_t there = machine.gpus.size();
  machine.gpus = visible_gpus(machine.gpus, variables);
  if (machine.gpus.empty())
    machine.no_gpu = fmt::format("{} leaves none of the {} GPU{} that the driver lists",
                                 choice_of_gpus(machine.maker, variables), there, there == 1 ? "" : "s");
}

std::vector<int> read_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  for (const std::string& word : entries_of(text)) {
    const std::size_t dash = word.find('-');
    const auto first = number_in(word.substr(0, dash));
    const auto last = dash == std::string::npos ? first : number_in(word.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= CPU_SETSIZE) continue;
    for (int cpu = static_cast<int>(*first); cpu <= static_cast<int>(*last); ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

int numa_of(const GpuFacts& gpu, const std::string& sys) {
  return static_cast<int>(number_in(sys_of_gpu(gpu, sys, "numa_node")).value_or(-1));
}

std::vector<int> processors_beside(const GpuFacts& gpu, const std::string& sys) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::vector<int> all, beside;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) all.push_back(cpu);
  for (const int cpu : read_cpu_list(sys_of_gpu(gpu, sys, "local_cpulist")))
    if (CPU_ISSET(cpu, &allowed)) beside.push_back(cpu);
  return beside.empty() ? all : beside;
}

bool stands_beside(const std::vector<int>& processors, const GpuFacts& gpu, const std::string& sys) {
  const std::vector<int> beside = read_cpu_list(sys_of_gpu(gpu, sys, "local_cpulist"));
  return beside.empty() || std::any_of(processors.begin(), processors.end(), [&](int cpu) {
           return std::find(beside.begin(), beside.end(), cpu) != beside.end();
         });
}

void bind_to(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : processors) CPU_SET(cpu, &set);
  if (!processors.empty()) static_cast<void>(sched_setaffinity(0, sizeof set, &set));
}

}  // namespace plan
