#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "presets/entries.hpp"

namespace plan {

/// The GPU that a word names in other order, or with its vendor or its kind of memory: `NVIDIA A100 80GB PCIe`,
/// `instinct-mi300x`. Empty if none has just these parts.
[[nodiscard]] std::string gpu_of_parts(std::string_view word, const std::vector<PresetEntry>& entries);

/// GPUs that drivers call by `word` but for their form and memory: all H100s of `H100 64GB`, and none of `RTX 4090 D`,
/// which is another GPU.
[[nodiscard]] std::vector<std::string> gpus_of_device(std::string_view word, const std::vector<PresetEntry>& entries);

/// The GPU that drivers call so, in words of which each is of its name, its form, its memory or its maker: none of
/// `RTX PRO 6000 Max-Q`. Empty if there is none.
[[nodiscard]] std::string gpu_of_driver(std::string_view word, const std::vector<PresetEntry>& entries,
                                        const StoreOptions& options);

/// GPUs whose preset has all the words of several in its name: rtx-6000-ada and rtx-pro-6000 of `RTX 6000`.
[[nodiscard]] std::vector<std::string> gpus_holding(std::string_view word, const std::vector<PresetEntry>& entries);

/// Could `word` be a slip of the finger for `name`? Numbers, and the letters that stand for a series, tell GPUs apart:
/// a B100 is no A100, and an A16 no A10. A slip is in a word of three letters or more.
[[nodiscard]] bool slip_of_gpu(std::string_view word, std::string_view name);

/// GPUs of an architecture or of a vendor: `hopper`, `amd`. `Grace Hopper` is what GPUs with such a CPU beside them are
/// called, so that their names alone begin with its letter.
[[nodiscard]] std::vector<std::string> gpus_of_make(std::string_view word, const std::vector<PresetEntry>& entries);

/// GPUs of which `word` names another edition, by letters or parts behind the name: rtx-4090 of `4090D` and `RTX 4090
/// Ti`, the H20s of `H20-3e`. They are other GPUs, and the nearest that are known.
[[nodiscard]] std::vector<std::string> gpus_of_series(std::string_view word, const std::vector<PresetEntry>& entries);

/// GPUs that tell each other apart by a letter behind `word`: tpu-v5e and tpu-v5p of `TPU v5`.
[[nodiscard]] std::vector<std::string> gpus_of_stem(std::string_view word, const std::vector<PresetEntry>& entries);

}  // namespace plan
