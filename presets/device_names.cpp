// Which data sheet a device's own name means. A GPU's preset lists under `devices` what drivers call it, and under
// `other_devices` the names of its sisters that have no data sheet: an H200 NVL is no H200. The longest listed name
// that occurs in a device's decides. Where several presets list it, the one whose memory comes nearest does.
// Tested by tests/presets/hardware_profile_test.cpp.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "formulas/text.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"

namespace plan {
namespace {

/// The length of the longest word of a preset's list that occurs in `name`, which is in capitals; 0 without one.
std::size_t longest_in(std::string_view name, const PresetEntry& entry, std::string_view list) {
  std::size_t longest = 0;
  for (const std::string& word : scan_list(entry.text, list))
    if (name.find(capitals(word)) != std::string_view::npos) longest = std::max(longest, word.size());
  return longest;
}

double memory_gib_of(const PresetEntry& entry) {
  const Result<Gpu> gpu = parse_gpu(entry);
  return gpu ? static_cast<double>(gpu->memory.value) / kGiB : 0;
}

}  // namespace

std::string preset_of_device(std::string_view device, double memory_gib, const StoreOptions& options) {
  const std::string name = capitals(std::string(device));
  if (name.find(" MIG ") != std::string::npos) return {};  // a part of a GPU
  const std::vector<PresetEntry> entries = list_presets(PresetKind::Gpu, options);
  std::vector<const PresetEntry*> best;
  std::size_t longest = 1, longest_other = 0;
  for (const PresetEntry& entry : entries) {
    const std::size_t length = longest_in(name, entry, "devices");
    if (length > longest) best.clear();
    if (length >= longest) longest = length, best.push_back(&entry);
    longest_other = std::max(longest_other, longest_in(name, entry, "other_devices"));
  }
  if (best.empty() || longest_other >= longest) return {};
  const auto away = [&](const PresetEntry* entry) { return std::abs(memory_gib_of(*entry) - memory_gib); };
  return (*std::min_element(best.begin(), best.end(), [&](const auto* a, const auto* b) { return away(a) < away(b); }))
      ->name;
}

}  // namespace plan
