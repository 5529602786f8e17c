// Accelerators that are no GPUs, by the signs of their software. Tested by tests/launch/other_hardware_test.cpp.
#include "cli/launch/scripts/other_hardware.hpp"
#include "cli/launch/job/keys.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/shell.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::string_view kNpu = "Ascend NPUs", kIntel = "Intel GPUs", kGaudi = "Intel Gaudi",
                           kTrainium = "AWS Trainium", kTpu = "TPUs", kMlu = "Cambricon MLUs",
                           kMusa = "Moore Threads GPUs", kCuda = "CUDA";

/// Hardware, and the word that only its software has.
struct HardwareSign {
  std::string_view hardware;
  std::string_view word;
};

/// How the variables of a vendor's runtime and collectives begin. Gaudi has some of `HCCL_`, too, and comes first.
constexpr HardwareSign kVendorVariables[] = {
    {kGaudi, "HABANA_"},
    {kNpu, "ASCEND_"},
    {kNpu, "HCCL_"},
    {kNpu, "NPUS_PER_NODE"},
    {kIntel, "ZE_AFFINITY_MASK"},
    {kIntel, "ZE_FLAT_DEVICE_HIERARCHY"},
    {kIntel, "CCL_ZE_"},
    {kTrainium, "NEURON_RT_"},
    {kTrainium, "NEURON_CC_FLAGS"},
    {kMlu, "MLU_VISIBLE_DEVICES"},
    {kMusa, "MUSA_VISIBLE_DEVICES"},
    {kCuda, "CUDA_"},
    {kCuda, "NCCL_"},
};
/// Programs, without `.py`.
constexpr HardwareSign kVendorPrograms[] = {{kNpu, "msrun"},
                                            {kNpu, "npu-smi"},
                                            {kGaudi, "gaudi_spawn"},
                                            {kTpu, "xla_spawn"},
                                            {kTrainium, "neuron_parallel_compile"}};
/// PyTorch's names of devices.
constexpr HardwareSign kTorchDevices[] = {{kNpu, "npu"},   {kIntel, "xpu"}, {kGaudi, "hpu"}, {kMlu, "mlu"},
                                          {kMusa, "musa"}, {kTpu, "tpu"},   {kCuda, "cuda"}};

/// A sign that was found, and the line that it is on.
struct FoundSign {
  std::string_view hardware;
  std::string word{};
  int line = 0;
};
using FoundSigns = std::vector<FoundSign>;

void add_variable(std::string_view name, std::string_view value, int line, FoundSigns& found) {
  // Megatron-LM asks for this one wherever it runs.
  if (trim(value).empty() || name == "CUDA_DEVICE_MAX_CONNECTIONS") return;
  if (name == "PJRT_DEVICE" && value == "TPU") found.push_back({kTpu, "PJRT_DEVICE", line});
  for (const auto& [hardware, start] : kVendorVariables)
    if (name.starts_with(start)) return found.push_back({hardware, std::string(name), line});
}

/// `--device npu`, `trainer.device=npu:0`, `device: npu`: a device that is the whole value of its own key.
void add_device(std::string_view key, std::string_view value, int line, FoundSigns& found) {
  if (key.find('/') != std::string_view::npos) return;
  const std::size_t dot = key.rfind('.');
  const std::string name =
      with_dashes(std::string(trim(key.substr(dot == std::string_view::npos ? 0 : dot + 1), "-+")));
  if (name != "device" && name != "device-type") return;
  const std::string device = lowered(std::string(value.substr(0, value.find(':'))));
  for (const auto& [hardware, word] : kTorchDevices)
    if (device == word) return found.push_back({hardware, std::string(value), line});
}

/// Programs that a command starts, themselves or by another, and flags.
void add_command(const ShellCommand& command, FoundSigns& found) {
  const std::size_t programs = behind_program(command.words).value_or(1);
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const auto& [text, line] = command.words[i];
    std::string_view program = base_name(text);
    if (program.ends_with(".py")) program.remove_suffix(3);
    for (const auto& [hardware, word] : kVendorPrograms)
      if (i < programs && program == word) found.push_back({hardware, text, line});
    const FlagAndValue flag = flag_at(command, i);
    if (!text.starts_with('-') && text.find('=') == std::string::npos) continue;
    add_device(flag.flag, flag.value, line, found);
    const std::string value = lowered(flag.value);
    if (value == "mindspeed") found.push_back({kNpu, flag.value, line});  // verl's engine
    if (flag.flag == "--use_habana" && value != "false" && value != "0") found.push_back({kGaudi, flag.flag, line});
  }
}

/// Lines outside of any branch that assign what is not exported, or source a toolkit's file: neither is a command.
void add_lines(std::string_view text, FoundSigns& found) {
  constexpr std::string_view kPerNode = "NPUS_PER_NODE=", kToolkit = "/ascend-toolkit/";
  int line = 0;
  for (const std::string_view each : split(text, "\n")) {
    ++line;
    const std::string_view code = each.substr(0, each.find(" #"));
    if (code.starts_with(kPerNode)) found.push_back({kNpu, "NPUS_PER_NODE", line});
    if ((code.starts_with("source ") || code.starts_with(". ")) && code.find(kToolkit) != std::string_view::npos)
      found.push_back({kNpu, "ascend-toolkit", line});
  }
}

FoundSigns signs_of_script(const LaunchSource& source) {
  FoundSigns found;
  const Script& script = follow_script(source);
  for (const auto& [name, word] : script.exported) add_variable(name, word.text, word.line, found);
  for (const ShellCommand& command : script.commands) {
    const std::string_view first = command.words.front().text;
    if (first == "echo" || first == "printf" || trains_nothing(command)) continue;
    for (const auto& [name, value] : command.environment)
      if (!script.exported.contains(name)) add_variable(name, value, command.words.front().line, found);
    add_command(command, found);
  }
  add_lines(source.text, found);
  return found;
}

/// Of settings and programs: `device: npu`, `Trainer(device="npu")`, `HCCL_CONNECT_TIMEOUT: 1200` in an environment.
FoundSigns signs_of_settings(std::string_view text) {
  FoundSigns found;
  int line = 0;
  for (std::string_view code : split(text, "\n")) {
    ++line;
    code = trim(code.substr(0, code.find('#')), " \t\r-,");
    const std::size_t mark = code.find_first_of(":=");
    if (mark == std::string_view::npos) continue;
    std::string_view key = trim(code.substr(0, mark), " \t\"'");
    if (const std::size_t open = key.find_last_of("( "); open != std::string_view::npos) key.remove_prefix(open + 1);
    const std::string_view value = trim(code.substr(mark + 1), " \t\"',)");
    add_device(key, value, line, found);
    add_variable(key, value, line, found);
    if (key == "name") add_variable(value, value, line, found);  // of a container's environment
  }
  return found;
}

bool has_preset(std::string_view hardware) { return hardware == kGaudi || hardware == kTrainium || hardware == kTpu; }

}  // namespace

std::string other_hardware(std::span<const LaunchSource> files) {
  for (const LaunchSource& source : files) {
    const FoundSigns found = is_shell(source) ? signs_of_script(source) : signs_of_settings(source.text);
    const bool cuda =
        std::any_of(found.begin(), found.end(), [](const FoundSign& sign) { return sign.hardware == kCuda; });
    if (found.empty() || cuda) continue;
    const FoundSign& sign = found.front();
    return fmt::format("{}{} ({}:{}: `{}`)", sign.hardware,
                       has_preset(sign.hardware) ? " of a kind that no word names" : "", source.path, sign.line,
                       yaml::printable(sign.word));
  }
  return {};
}

bool for_ascend(const LaunchSource& script) {
  const FoundSigns found = signs_of_script(script);
  if (std::any_of(found.begin(), found.end(), [](const FoundSign& sign) { return sign.hardware == kNpu; })) return true;
  for (const std::string_view line : split(script.text, "\n")) {
    const std::string_view code = trim(line);
    if (!code.starts_with('#') && lowered(std::string(code)).find("mindspeed") != std::string::npos) return true;
  }
  return false;
}

std::string help_with_hardware(std::string_view hardware) {
  if (hardware.starts_with(kGaudi)) return "write `--gpu gaudi3`, or `--gpu gaudi2`";
  if (hardware.starts_with(kTrainium)) return "write `--gpu trainium2`";
  if (hardware.starts_with(kTpu)) return "write `--gpu tpu-v5p`, or another TPU of `plan list gpus`";
  if (const std::size_t choice = hardware.find(" or "), first = hardware.find('`') + 1; choice < hardware.size())
    return fmt::format("they take any of these: write the one that is meant, as `--gpu {}`",
                       hardware.substr(first, std::min(hardware.find(':', first), choice) - first));
  return "no preset is of that kind: write a file of your own, as plan-preset(5) describes it, for `--gpu`, or name "
         "with `--gpu` what to price the job on";
}

}  // namespace plan
