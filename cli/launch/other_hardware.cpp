// Accelerators that are no GPUs, by the signs of their software. Tested by tests/launch/other_hardware_test.cpp.
#include "cli/launch/other_hardware.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"

namespace plan {
namespace {

struct HardwareSign {
  std::string_view hardware;
  std::string_view word;
};

/// Variables of a vendor's runtime and collectives, devices as PyTorch calls them, and launchers of a vendor's own.
constexpr HardwareSign kHardwareSigns[] = {
    {"Ascend NPUs", "mindspeed"},
    {"Ascend NPUs", "MindSpeed"},
    {"Ascend NPUs", "ASCEND_"},
    {"Ascend NPUs", "HCCL_"},
    {"Ascend NPUs", "ascend-toolkit"},
    {"Ascend NPUs", "msrun"},
    {"Ascend NPUs", "npu-smi"},
    {"Ascend NPUs", "NPUS_PER_NODE"},
    {"Intel GPUs", "ZE_AFFINITY_MASK"},
    {"Intel GPUs", "ZE_FLAT_DEVICE_HIERARCHY"},
    {"Intel GPUs", "CCL_ZE_"},
    {"Intel Gaudi", "HABANA_"},
    {"Intel Gaudi", "use_habana"},
    {"Intel Gaudi", "gaudi_spawn"},
    {"AWS Trainium", "NEURON_RT_"},
    {"AWS Trainium", "NEURON_CC_FLAGS"},
    {"AWS Trainium", "neuron_parallel_compile"},
    {"TPUs", "PJRT_DEVICE=TPU"},
    {"TPUs", "xla_spawn"},
    {"Cambricon MLUs", "MLU_VISIBLE_DEVICES"},
    {"Moore Threads GPUs", "MUSA_VISIBLE_DEVICES"},
};
/// PyTorch's names of devices, behind `device:` or `device=`.
constexpr HardwareSign kTorchDevices[] = {{"Ascend NPUs", "npu"},         {"Intel GPUs", "xpu"},
                                          {"Intel Gaudi", "hpu"},         {"Cambricon MLUs", "mlu"},
                                          {"Moore Threads GPUs", "musa"}, {"TPUs", "tpu"}};

bool of_device_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Does the word stand in the text, outside of the lines that are comments?
bool stands_in_code(std::string_view text, std::string_view word, bool whole) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // 0 where there is none
    const std::size_t first = text.find_first_not_of(" \t", line);
    const std::size_t end = at + word.size();
    if (text[first] != '#' && !(whole && end < text.size() && of_device_word(text[end]))) return true;
  }
  return false;
}

/// `run_qwen3_npu.sh`: the device as a word of the file's name.
bool file_named_for(const std::string& path, std::string_view device) {
  const std::string name = lowered(std::string(base_name(path)));
  const std::size_t at = name.find(device);
  if (at == std::string::npos) return false;
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  return (at == 0 || !letter(name[at - 1])) && !letter(name.c_str()[at + device.size()]);
}

}  // namespace

std::string_view other_hardware(std::span<const LaunchSource> files) {
  for (const LaunchSource& source : files) {
    for (const auto& [hardware, word] : kHardwareSigns)
      if (stands_in_code(source.text, word, false)) return hardware;
    for (const auto& [hardware, device] : kTorchDevices) {
      for (const std::string_view before : {"device: ", "device=", "device: \"", "device=\""})
        if (stands_in_code(source.text, std::string(before) + std::string(device), true)) return hardware;
      if (is_shell(source) && file_named_for(source.path, device)) return hardware;
    }
  }
  return {};
}

}  // namespace plan
