// Which data sheet a device's own name means. A GPU's preset lists under `devices` what drivers call it, and under
// `other_devices` the names of its sisters that have no data sheet: an H200 NVL is no H200. The longest listed name
// that occurs in a device's, as words of their own, decides: an A10 is no A100. Where several presets list it, the one
// whose memory comes nearest does; where nothing was measured, one with the memory that the name states, or none.
// Tested by tests/presets/hardware_profile_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "formulas/text.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/store.hpp"

namespace plan {
namespace {

/// Does `name` hold these words with no letter or digit beside them?
bool holds(std::string_view name, std::string_view words) {
  for (std::size_t at = name.find(words); at != std::string_view::npos; at = name.find(words, at + 1)) {
    const std::size_t end = at + words.size();
    if ((at == 0 || !letter_or_digit(name[at - 1])) && (end == name.size() || !letter_or_digit(name[end]))) return true;
  }
  return false;
}

/// The longest entry of a preset's list that `name`, in capitals, holds; empty without one.
std::string longest_in(std::string_view name, const PresetEntry& entry, std::string_view list) {
  std::string longest;
  for (const std::string& words : scan_list(entry.text, list))
    if (holds(name, capitals(words)) && words.size() > longest.size()) longest = capitals(words);
  return longest;
}

/// A part of a GPU: a MIG instance, or a profile of a virtual GPU such as A40-48Q.
bool is_part(std::string_view name) {
  if (holds(name, "MIG") || name.starts_with("GRID ")) return true;
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

/// Does a preset go by what a name calls the device? `a100` is the one of 80 GB.
bool usual_of(std::string_view name, const PresetEntry& entry) {
  const std::string words = longest_in(name, entry, "devices");
  return std::any_of(entry.aliases.begin(), entry.aliases.end(), [&](std::string_view alias) {
    return alias.size() == words.size() && same_but_for_case(alias, words);
  });
}

/// Has a preset the memory that a name states? Makers count in GB or in GiB, with or without what a driver keeps: an
/// L40S of 48 GB reports 45 GiB. An alias may count another memory, as `gh200-480gb` does the host's.
bool has_memory(const PresetEntry& entry, double gb) {
  const double gib = memory_gib_of(entry);
  const std::string said = fmt::format("-{:g}gb", gb);
  return (gb >= gib * 0.99 && gb <= gib * 1.08) ||
         std::any_of(entry.aliases.begin(), entry.aliases.end(), [&](std::string_view a) { return a.ends_with(said); });
}

/// The gigabytes that a name states, `80GB` or `40G`, or `80` where one of these presets has them; 0 of one that does
/// not.
double stated_gb(std::string_view name, const std::vector<const PresetEntry*>& presets) {
  for (const bool unit : {true, false})
    for (std::size_t begin = 0, end = 0; begin < name.size(); begin = end + 1) {
      for (end = begin; end < name.size() && letter_or_digit(name[end]);) ++end;
      const std::string_view part = name.substr(begin, end - begin);
      const std::size_t digits = std::min(part.find_first_not_of("0123456789"), part.size());
      if (digits == 0 || digits > 4) continue;
      const double gb = std::stod(std::string(part.substr(0, digits)));
      const std::string_view behind = part.substr(digits);
      if (unit ? behind == "G" || behind == "GB" || behind == "GIB"
               : behind.empty() && std::any_of(presets.begin(), presets.end(),
                                               [&](const PresetEntry* entry) { return has_memory(*entry, gb); }))
        return gb;
    }
  return 0;
}

/// Does a name say that the GPU comes in another form than the preset's?
bool other_form(std::string_view name, const PresetEntry& entry) {
  constexpr std::string_view kForms[] = {"PCIE", "NVL", "SXM"};
  const std::string preset = capitals(entry.name);
  const auto says = [](std::string_view text, std::string_view form) {
    for (const char* more : {"", "2", "3", "4", "5", "6"})  // SXM2 of a V100
      if (holds(text, std::string(form) + more)) return true;
    return false;
  };
  const bool named = std::any_of(std::begin(kForms), std::end(kForms), [&](auto form) { return says(preset, form); });
  return named && std::any_of(std::begin(kForms), std::end(kForms),
                              [&](auto form) { return says(name, form) && !says(preset, form); });
}

/// The longest names of devices in a name, and the presets that list them; of names of several GPUs none.
std::vector<const PresetEntry*> longest_listed(std::string_view name, const std::vector<PresetEntry>& entries) {
  std::vector<const PresetEntry*> best;
  std::string longest;
  std::size_t longest_other = 0;
  for (const PresetEntry& entry : entries) {
    const std::string words = longest_in(name, entry, "devices");
    if (words.size() > longest.size()) best.clear(), longest = words;
    if (!words.empty() && words.size() == longest.size()) best.push_back(&entry);
    longest_other = std::max(longest_other, longest_in(name, entry, "other_devices").size());
  }
  const auto another = [&](const PresetEntry& entry) {
    return longest.find(longest_in(name, entry, "devices")) == std::string::npos;
  };
  if (longest_other >= longest.size() || std::any_of(entries.begin(), entries.end(), another)) return {};
  return best;
}

}  // namespace

std::string preset_of_device(std::string_view device, double memory_gib, const StoreOptions& options) {
  const std::string name = capitals(std::string(device));
  if (is_part(name)) return {};
  const std::vector<PresetEntry> entries = list_presets(PresetKind::Gpu, options);
  std::vector<const PresetEntry*> best = longest_listed(name, entries);
  const double stated = memory_gib > 0 ? 0 : stated_gb(name, best);
  std::erase_if(best, [&](const PresetEntry* entry) {
    return other_form(name, *entry) || (stated > 0 && !has_memory(*entry, stated));
  });
  if (best.empty()) return {};
  const auto away = [&](const PresetEntry* entry) {
    return memory_gib > 0 ? std::abs(memory_gib_of(*entry) - memory_gib) : usual_of(name, *entry) ? 0 : 1;
  };
  return (*std::min_element(best.begin(), best.end(), [&](const auto* a, const auto* b) { return away(a) < away(b); }))
      ->name;
}

}  // namespace plan
