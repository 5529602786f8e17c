// What people call a GPU beside the names of its preset. Tested by tests/cli/proposals_test.cpp.
#include "presets/gpu_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/header.hpp"

namespace plan {
namespace {

/// Words beside the name that say nothing more of which GPU it is.
constexpr auto kBeside = word_list([] {
  return "nvidia amd intel google tesla instinct geforce quadro habana radeon hbm2 hbm2e hbm3 hbm3e gpu oam "
         "corporation "
         "rev a1 ga100 ga102 ga102gl gh100 ad102 ad102gl ad104gl gb202 gb202gl gv100 gv100gl tu104gl";  // lspci's, too
});

/// A part as it is compared: `80g`, `80gib` and `80` are 80 GB, and an A100, H100 or B200 comes in one form of SXM.
std::string plain_part(const std::string& part) {
  const std::size_t digits = part.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos)
    return part == "sxm4" || part == "sxm5" || part == "sxm6" ? "sxm" : part;
  const std::string unit = part.substr(digits);
  return unit == "g" || unit == "gb" || unit == "gib" ? part.substr(0, digits) : part;
}

/// The parts of a name between its signs, in small letters and sorted, without words beside it.
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      parts.back() += lower_case(c);
    else if (!parts.back().empty())
      parts.emplace_back();
  }
  std::erase_if(parts, [](const std::string& part) {
    return part.empty() || std::find(std::begin(kBeside), std::end(kBeside), part) != std::end(kBeside);
  });
  for (std::string& part : parts) part = plain_part(part);
  std::sort(parts.begin(), parts.end());
  return parts;
}

}  // namespace

std::string gpu_of_parts(std::string_view word, const std::vector<PresetEntry>& entries) {
  const std::vector<std::string> wanted = parts_of(word);
  if (wanted.empty()) return {};
  for (const PresetEntry& entry : entries) {
    const auto same = [&](std::string_view name) { return parts_of(name) == wanted; };
    if (same(entry.name) || std::any_of(entry.aliases.begin(), entry.aliases.end(), same)) return entry.name;
  }
  return {};
}

std::vector<std::string> gpus_of_device(std::string_view word, const std::vector<PresetEntry>& entries) {
  const std::vector<std::string> parts = parts_of(word);
  std::vector<std::string> found;
  if (std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part == "mig" || part == "grid"; }))
    return found;
  const auto said = [&](const std::string& device) {
    const std::string low = lowered(device);
    const std::size_t digit = low.find_first_of("0123456789");
    if (digit == std::string::npos) return false;
    const std::size_t begin = low.find_last_of(" -", digit) + 1;  // `4090` of `RTX 4090`; 0 behind none
    const std::string model = low.substr(begin, low.find_first_of(" -", digit) - begin);
    return std::find(parts.begin(), parts.end(), model) != parts.end();
  };
  for (const PresetEntry& entry : entries) {
    const std::vector<std::string> devices = scan_list(entry.text, "devices");
    if (std::any_of(devices.begin(), devices.end(), said)) found.push_back(entry.name);
  }
  return found;
}

std::vector<std::string> gpus_of_make(std::string_view word, const std::vector<PresetEntry>& entries) {
  std::vector<std::string> found;
  for (const PresetEntry& entry : entries)
    for (const char* key : {"architecture", "vendor"}) {
      const std::size_t at = entry.text.find(fmt::format("\n{}: ", key));
      const std::size_t from = at == std::string::npos ? at : at + 3 + std::string_view(key).size();
      if (at != std::string::npos &&
          alike(entry.text.substr(from, entry.text.find_first_of(" #\n", from) - from), word))
        found.push_back(entry.name);
    }
  return found;
}

std::vector<std::string> gpus_of_stem(std::string_view word, const std::vector<PresetEntry>& entries) {
  const auto plain = [](std::string_view name) {
    std::string letters;
    for (const char c : name)
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) letters += lower_case(c);
    return letters;
  };
  const std::string stem = plain(word);
  std::vector<std::string> found;
  if (stem.empty() || std::isdigit(static_cast<unsigned char>(stem.back())) == 0) return found;
  const auto continues = [&](std::string_view name) {
    const std::string whole = plain(name);
    return whole.size() == stem.size() + 1 && whole.starts_with(stem) &&
           std::isalpha(static_cast<unsigned char>(whole.back())) != 0;
  };
  for (const PresetEntry& entry : entries)
    if (continues(entry.name) || std::any_of(entry.aliases.begin(), entry.aliases.end(), continues))
      found.push_back(entry.name);
  return found;
}

}  // namespace plan
