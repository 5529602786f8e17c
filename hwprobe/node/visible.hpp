#pragma once

#include <string>
#include <vector>

#include "hwprobe/node/machine.hpp"
#include "hwprobe/start/launcher.hpp"

namespace plan {

/// The GPUs that CUDA_VISIBLE_DEVICES leaves a process, in the order in which CUDA numbers them; without the variable
/// all. Entries are numbers or beginnings of UUIDs, and as in CUDA the first that names no GPU ends the list. A part of
/// a GPU (`MIG-...`) is one entry of its own, beside which CUDA lists nothing. AMD's GPUs are chosen by
/// ROCR_VISIBLE_DEVICES, and of those that it leaves by HIP_VISIBLE_DEVICES.
[[nodiscard]] std::vector<GpuFacts> visible_gpus(const std::vector<GpuFacts>& all, const Variables& variables);

/// The values of these variables as far as they are set, by default with their names: "CUDA_VISIBLE_DEVICES=`0,1`".
[[nodiscard]] std::string choice_of_gpus(Maker maker, const Variables& variables, bool named = true);

/// Leaves a machine the GPUs that this process sees, and says why where none is left.
void keep_visible(Machine& machine, const Variables& variables);

/// Processors beside a GPU (`local_cpulist` of its PCI device) that the launcher lets this process use; all that it may
/// use where none is beside it.
[[nodiscard]] std::vector<int> processors_beside(const GpuFacts& gpu, const std::string& sys = "/sys");
/// Whether any of these is close to the GPU; true where /sys does not say.
[[nodiscard]] bool stands_beside(const std::vector<int>& processors, const GpuFacts& gpu,
                                 const std::string& sys = "/sys");
/// Binds this thread, and threads that it starts, to them.
void bind_to(const std::vector<int>& processors);

/// NUMA node of a GPU; -1 where /sys does not say.
[[nodiscard]] int numa_of(const GpuFacts& gpu, const std::string& sys = "/sys");

/// Processors of a list like "0-3,8,10-11".
[[nodiscard]] std::vector<int> read_cpu_list(const std::string& text);

}  // namespace plan
