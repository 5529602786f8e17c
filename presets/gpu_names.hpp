#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "presets/store.hpp"

namespace plan {

/// The GPU that a word names in other order, or with its vendor or its kind of memory: `NVIDIA A100 80GB PCIe`,
/// `instinct-mi300x`. Empty if none has just these parts.
[[nodiscard]] std::string gpu_of_parts(std::string_view word, const std::vector<PresetEntry>& entries);

/// GPUs whose drivers' name begins as `word` holds it, in whatever form and with whatever memory: all H100s of
/// `H100 64GB`. None where a word says that it is a part of one.
[[nodiscard]] std::vector<std::string> gpus_of_device(std::string_view word, const std::vector<PresetEntry>& entries);

/// GPUs of an architecture or of a vendor: `hopper`, `amd`.
[[nodiscard]] std::vector<std::string> gpus_of_make(std::string_view word, const std::vector<PresetEntry>& entries);

/// GPUs that tell each other apart by a letter behind `word`: tpu-v5e and tpu-v5p of `TPU v5`.
[[nodiscard]] std::vector<std::string> gpus_of_stem(std::string_view word, const std::vector<PresetEntry>& entries);

}  // namespace plan
