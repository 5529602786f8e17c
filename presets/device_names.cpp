// Which data sheet a device's own name means. A GPU's preset lists under `devices` what drivers call it, and under
// `other_devices` the names of its sisters that have no data sheet: an H200 NVL is no H200. The longest listed name
// that occurs in a device's, as words of their own, decides: an A10 is no A100. Where several presets list it, the one
// whose memory comes nearest does. Tested by tests/presets/hardware_profile_test.cpp.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "formulas/text.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"

namespace plan {
namespace {

bool alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Does `name` hold these words with no letter or digit beside them?
bool holds(std::string_view name, std::string_view words) {
  for (std::size_t at = name.find(words); at != std::string_view::npos; at = name.find(words, at + 1)) {
    const std::size_t end = at + words.size();
    if ((at == 0 || !alphanumeric(name[at - 1])) && (end == name.size() || !alphanumeric(name[end]))) return true;
  }
  return false;
}

/// The length of the longest entry of a preset's list that `name`, in capitals, holds; 0 without one.
std::size_t longest_in(std::string_view name, const PresetEntry& entry, std::string_view list) {
  std::size_t longest = 0;
  for (const std::string& words : scan_list(entry.text, list))
    if (holds(name, capitals(words))) longest = std::max(longest, words.size());
  return longest;
}

/// A part of a GPU: a MIG instance, or a profile of a virtual GPU such as A40-48Q.
bool is_part(std::string_view name) {
  if (name.find(" MIG ") != std::string_view::npos || name.starts_with("GRID ")) return true;
  const std::size_t dash = name.find_last_of('-');
  if (dash == std::string_view::npos || name.size() < dash + 3) return false;
  const std::string_view gib = name.substr(dash + 1, name.size() - dash - 2);
  return gib.find_first_not_of("0123456789") == std::string_view::npos &&
         std::string_view("QCAB").find(name.back()) != std::string_view::npos;
}

double memory_gib_of(const PresetEntry& entry) {
  const Result<Gpu> gpu = parse_gpu(entry);
  return gpu ? static_cast<double>(gpu->memory.value) / kGiB : 0;
}

}  // namespace

std::string preset_of_device(std::string_view device, double memory_gib, const StoreOptions& options) {
  const std::string name = capitals(std::string(device));
  if (is_part(name)) return {};
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
