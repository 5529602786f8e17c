// Which data sheet a device's own name means. Names as NVML and rocm-smi print them.
// Tested by tests/presets/hardware_profile_test.cpp.
#include <algorithm>
#include <cctype>
#include <string>

#include "presets/hardware.hpp"

namespace plan {
namespace {

struct DeviceName {
  std::string_view part;    ///< of the name, in capitals; the first row that occurs decides
  double least_gib;         ///< memory from here on
  std::string_view preset;  ///< empty: there is no data sheet of it, and its sisters are others
};

constexpr DeviceName kDevices[] = {
    {" MIG ", 0, ""},  // a part of a GPU
    {"H200 NVL", 0, ""},
    {"H800 PCIE", 0, ""},
    {"A800-PCIE", 0, ""},
    {"A800 80GB PCIE", 0, ""},
    {"V100-PCIE", 0, ""},
    {"V100-SXM3", 0, ""},
    {"GB300", 0, "gb300"},
    {"GB200", 0, "gb200"},
    {"GH200", 0, "gh200"},
    {"B300", 0, "b300-sxm"},
    {"B200", 0, "b200-sxm"},
    {"H200", 0, "h200-sxm"},
    {"H100 PCIE", 0, "h100-pcie"},
    {"H100 NVL", 0, "h100-nvl"},
    {"H100", 90, "h100-sxm-96gb-500w"},
    {"H100", 0, "h100-sxm"},
    {"H800", 0, "h800-sxm"},
    {"H20", 0, "h20-sxm"},
    {"A100-PCIE", 70, "a100-pcie-80gb"},
    {"A100 80GB PCIE", 0, "a100-pcie-80gb"},
    {"A100", 70, "a100-sxm-80gb"},
    {"A100-SXM4-80GB", 0, "a100-sxm-80gb"},
    {"A100", 0, "a100-sxm-40gb"},
    {"A800", 0, "a800-sxm-80gb"},
    {"V100-SXM2", 25, "v100-sxm2-32gb"},
    {"V100-SXM2-32GB", 0, "v100-sxm2-32gb"},
    {"V100", 0, "v100-sxm2-16gb"},
    {"L40S", 0, "l40s"},
    {"RTX PRO 6000", 0, "rtx-pro-6000"},
    {"RTX 5090", 0, "rtx-5090"},
    {"RTX 4090", 0, "rtx-4090"},
    {"RTX A6000", 0, "rtx-a6000"},
    {"MI355X", 0, "mi355x"},
    {"MI325X", 0, "mi325x"},
    {"MI300X", 0, "mi300x"},
    {"MI250X", 0, "mi250x-gcd"},
};

}  // namespace

std::vector<std::string> presets_of_devices() {
  std::vector<std::string> presets;
  for (const DeviceName& row : kDevices)
    if (!row.preset.empty()) presets.emplace_back(row.preset);
  return presets;
}

std::string preset_of_device(std::string_view device, double memory_gib) {
  std::string name(device);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
  for (const DeviceName& row : kDevices)
    if (name.find(row.part) != std::string::npos && memory_gib >= row.least_gib) return std::string(row.preset);
  return {};
}

}  // namespace plan
