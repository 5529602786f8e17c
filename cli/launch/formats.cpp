// Every kind of launch file, once. `plan emit`, `--from` and the manual read this table.
#include <algorithm>

#include "cli/launch/format.hpp"
#include "cli/launch/megatron.hpp"

namespace plan {
namespace {

constexpr LaunchFormat kFormats[] = {
    {"megatron-lm", "Megatron-LM: pretrain_gpt.py and its arguments", Framework::Megatron, write_megatron,
     is_megatron_script, read_megatron_scripts},
};

}  // namespace

std::span<const LaunchFormat> launch_formats() { return kFormats; }

std::vector<std::string> emit_words() {
  std::vector<std::string> words;
  for (const LaunchFormat& format : launch_formats())
    if (format.write != nullptr) words.emplace_back(format.name);
  return words;
}

std::optional<Framework> framework_of_format(std::string_view name) {
  for (const LaunchFormat& format : launch_formats())
    if (format.name == name && format.write != nullptr) return format.framework;
  return std::nullopt;
}

}  // namespace plan
