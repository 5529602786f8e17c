// What people call a GPU beside the names of its preset. Tested by tests/cli/proposals_test.cpp.
#include "presets/gpu_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/hardware.hpp"
#include "presets/header.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// Words beside the name that say nothing more of which GPU it is.
constexpr auto kBeside = word_list([] {
  return "nvidia amd intel google tesla instinct geforce quadro habana radeon hbm2 hbm2e hbm3 hbm3e gpu oam "
         "corporation "
         "rev a1 ga100 ga102 ga102gl gh100 ad102 ad102gl ad104gl gb202 gb202gl gv100 gv100gl tu104gl";  // lspci's, too
});

/// Forms in which one GPU is built, and words that makers put into the names of some, or that name the board or the
/// cloud that it is in: of all of them none means another GPU.
constexpr auto kForms = word_list([] { return "pcie nvl sxm sxm2 sxm3 oam"; });
constexpr auto kTrade = word_list([] {
  return "generation server workstation edition tensor core accelerator superchip ampere ada lovelace hopper grace "
         "blackwell turing volta hgx lambda";
});

/// A part as it is compared: `80g`, `80gib` and `80` are 80 GB, and an A100, H100 or B200 comes in one form of SXM.
std::string plain_part(const std::string& part) {
  const std::size_t digits = part.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos)
    return part == "sxm4" || part == "sxm5" || part == "sxm6" ? "sxm" : part;
  const std::string unit = part.substr(digits);
  return unit == "g" || unit == "gb" || unit == "gib" ? part.substr(0, digits) : part;
}

template <class Words>
bool among(const Words& words, std::string_view one) {
  return std::find(std::begin(words), std::end(words), one) != std::end(words);
}

bool is_number(std::string_view text) { return text.find_first_not_of("0123456789") == std::string_view::npos; }

/// Gigabytes of a card: less than the numbers of models, such as 3090.
bool is_memory(std::string_view part) { return is_number(part) && part.size() <= 3; }

/// What is between the signs of a name, in small letters; with `turns`, letters and digits apart, too.
std::vector<std::string> words_of_name(std::string_view name, bool turns = false) {
  std::vector<std::string> parts(1);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  for (const char c : name) {
    const bool sign = !letter_or_digit(c);
    const bool turn = turns && !sign && !parts.back().empty() && digit(parts.back().back()) != digit(c);
    if ((sign && !parts.back().empty()) || turn) parts.emplace_back();
    if (!sign) parts.back() += lower_case(c);
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

/// The same without words beside the name.
std::vector<std::string> own_words(std::string_view name, bool turns = false) {
  std::vector<std::string> parts = words_of_name(name, turns);
  std::erase_if(parts, [](const std::string& part) { return among(kBeside, part); });
  return parts;
}

/// The parts of a name between its signs, in small letters and sorted, without words beside it.
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts = own_words(name);
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
  const auto bare = [](std::string_view name) {
    std::vector<std::string> parts = parts_of(name);
    std::erase_if(parts, [](const std::string& part) { return among(kForms, part) || is_memory(part); });
    return parts;
  };
  const std::vector<std::string> wanted = bare(word);
  std::vector<std::string> found;
  if (wanted.empty()) return found;
  for (const PresetEntry& entry : entries) {
    const std::vector<std::string> devices = scan_list(entry.text, "devices");
    if (std::any_of(devices.begin(), devices.end(), [&](const std::string& one) { return bare(one) == wanted; }))
      found.push_back(entry.name);
  }
  return found;
}

std::string gpu_of_driver(std::string_view word, const std::vector<PresetEntry>& entries, const StoreOptions& options) {
  std::string preset = preset_of_device(word, 0, options);
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [&](const PresetEntry& one) { return one.name == preset; });
  if (preset.empty() || entry == entries.end()) return {};
  std::vector<std::string> known = parts_of(entry->name);
  for (const std::string& device : scan_list(entry->text, "devices"))
    for (const std::string& part : parts_of(device)) known.push_back(part);
  for (const std::string& part : parts_of(word))
    if (!among(kForms, part) && !among(kTrade, part) && !is_memory(part) && !among(known, part)) return {};
  return preset;
}

std::vector<std::string> gpus_holding(std::string_view word, const std::vector<PresetEntry>& entries) {
  const std::vector<std::string> wanted = words_of_name(word);
  std::vector<std::string> found;
  if (wanted.size() < 2) return found;
  for (const PresetEntry& entry : entries) {
    const std::vector<std::string> has = words_of_name(entry.name);
    if (std::all_of(wanted.begin(), wanted.end(), [&](const std::string& part) { return among(has, part); }))
      found.push_back(entry.name);
  }
  return found;
}

bool slip_of_gpu(std::string_view word, std::string_view name) {
  constexpr std::size_t kLong = 3;  // letters of a word, such as `gaudi` or `sxm`; fewer are what tells GPUs apart
  const std::vector<std::string> typed = words_of_name(word, true), meant = words_of_name(name, true);
  if (typed.size() != meant.size()) return false;
  for (std::size_t i = 0; i < typed.size(); ++i) {
    if (typed[i] == meant[i]) continue;
    const bool words = !is_number(typed[i]) && std::min(typed[i].size(), meant[i].size()) >= kLong;
    if (!words || edit_distance(typed[i], meant[i], 2) > 1) return false;
  }
  return true;
}

std::vector<std::string> gpus_of_series(std::string_view word, const std::vector<PresetEntry>& entries) {
  constexpr std::size_t kLeast = 2;  // digits that tell a series; one is in too many names
  std::vector<std::string> parts = own_words(word, true), found;
  for (; !parts.empty() && found.empty(); parts.pop_back()) {
    if (!is_number(parts.back()) || parts.back().size() < kLeast) continue;
    const auto begins = [&](std::string_view name) {
      const std::vector<std::string> has = words_of_name(name, true);
      return has.size() >= parts.size() && std::equal(parts.begin(), parts.end(), has.begin());
    };
    for (const PresetEntry& entry : entries)
      if (begins(entry.name) || std::any_of(entry.aliases.begin(), entry.aliases.end(), begins))
        found.push_back(entry.name);
  }
  return found;
}

std::vector<std::string> gpus_of_make(std::string_view word, const std::vector<PresetEntry>& entries) {
  constexpr std::string_view kCpu = "grace";
  const std::vector<std::string> parts = words_of_name(word);
  const bool with_cpu = parts.size() == 2 && parts[0] == kCpu;
  if (with_cpu) word = parts[1];
  std::vector<std::string> found;
  for (const PresetEntry& entry : entries)
    for (const char* key : {"architecture", "vendor"}) {
      const std::size_t at = entry.text.find(fmt::format("\n{}: ", key));
      const std::size_t from = at == std::string::npos ? at : at + 3 + std::string_view(key).size();
      if (at != std::string::npos &&
          same_but_for_case(entry.text.substr(from, entry.text.find_first_of(" #\n", from) - from), word) &&
          (!with_cpu || entry.name.starts_with(kCpu.front())))
        found.push_back(entry.name);
    }
  return found;
}

std::vector<std::string> gpus_of_stem(std::string_view word, const std::vector<PresetEntry>& entries) {
  const std::string stem = letters_and_digits(word);
  std::vector<std::string> found;
  if (stem.empty() || std::isdigit(static_cast<unsigned char>(stem.back())) == 0) return found;
  const auto continues = [&](std::string_view name) {
    const std::string whole = letters_and_digits(name);
    return whole.size() == stem.size() + 1 && whole.starts_with(stem) &&
           std::isalpha(static_cast<unsigned char>(whole.back())) != 0;
  };
  for (const PresetEntry& entry : entries)
    if (continues(entry.name) || std::any_of(entry.aliases.begin(), entry.aliases.end(), continues))
      found.push_back(entry.name);
  return found;
}

}  // namespace plan
