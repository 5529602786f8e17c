// The software of published runs, by the names that tables of runs give it. Tested by
// tests/acceptance/published_software_test.cpp.
#include "planner/rules/run_software.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <vector>

#include "formulas/text.hpp"
#include "planner/rules/stack_data.hpp"

namespace plan {
namespace {

using Same = bool (*)(std::string_view, std::string_view);

/// The same whatever is between its words: `Megatron Core`, `LLaMA Factory`.
bool same_letters(std::string_view a, std::string_view b) {
  const std::string one = without_signs(a);
  return !one.empty() && one == without_signs(b);
}

bool among(std::span<const std::string_view> names, std::string_view name, Same same) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view known) { return same(known, name); });
}

const RunSoftware* software_called(std::string_view name, Same same) {
  for (const RunSoftware& software : run_software())
    if (among(software.names, name, same)) return &software;
  return nullptr;
}

/// 1000 * major + minor of "0.6.0", "v1.2": at least two numbers with points between them, and nothing else.
std::optional<int> version_of(std::string_view word) {
  constexpr int kMinors = 1000;
  if (word.starts_with('v')) word.remove_prefix(1);
  int numbers[2] = {}, count = 0;
  for (const char* at = word.data(); count == 0 || at != word.data() + word.size(); ++count) {
    if (count > 0 && *at++ != '.') return std::nullopt;
    int number = 0;
    const auto [end, error] = std::from_chars(at, word.data() + word.size(), number);
    if (error != std::errc{} || number < 0 || number >= kMinors) return std::nullopt;
    if (count < 2) numbers[count] = number;
    at = end;
  }
  return count < 2 ? std::nullopt : std::optional(numbers[0] * kMinors + numbers[1]);
}

/// The software of a name, with or without a version behind it.
NamedSoftware with_version(std::string_view name, Same same) {
  if (const RunSoftware* software = software_called(name, same)) return {software};
  const std::size_t space = name.rfind(' ');
  if (space == std::string_view::npos) return {};
  const std::optional<int> version = version_of(name.substr(space + 1));
  const RunSoftware* software = version ? software_called(name.substr(0, space), same) : nullptr;
  return software == nullptr ? NamedSoftware{} : NamedSoftware{software, *version};
}

/// What a cell names one beside the other, as `DeepSpeed (ZeRO-3) + HF transformers` names three, none of them empty.
std::vector<std::string_view> parts_of(std::string_view cell) {
  constexpr std::string_view kSigns = "()[]/+,;|";
  constexpr std::string_view kWords[] = {" via ", " with ", " w/ ", " on ", " in ", " and "};
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  const auto end_at = [&](std::size_t at) {
    const std::string_view part = trim(cell.substr(from, at - from));
    if (!part.empty()) parts.push_back(part);
  };
  for (std::size_t at = 0; at < cell.size(); ++at) {
    std::size_t length = kSigns.find(cell[at]) != std::string_view::npos ? 1 : 0;
    for (const std::string_view word : kWords)
      if (cell.substr(at).starts_with(word)) length = word.size();
    if (length == 0) continue;
    end_at(at);
    from = at + length, at = from - 1;
  }
  end_at(cell.size());
  return parts;
}

/// A name without that of its maker in front: `NVIDIA NeMo`.
std::string_view without_maker(std::string_view name) {
  for (const RunSoftware& software : run_software())
    for (const std::string_view maker : software.makers)
      if (name.size() > maker.size() && name[maker.size()] == ' ' &&
          same_but_for_case(name.substr(0, maker.size()), maker))
        return trim(name.substr(maker.size()));
  return name;
}

/// Whether the last word of a name says how the software ran, which columns say, or which of its releases.
bool is_remark(std::string_view word) {
  if (!word.empty() && std::string_view("vVr").find(word.front()) != std::string_view::npos) word.remove_prefix(1);
  if (!word.empty() && word.front() >= '0' && word.front() <= '9') return true;
  constexpr std::string_view kWords[] = {"main", "dev", "nightly", "FSDP", "FSDP1", "FSDP2", "DDP", "Trainer"};
  return same_but_for_case(word.substr(0, 4), "ZeRO") ||
         std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view known) { return same_but_for_case(known, word); });
}

/// The software of a part of a cell.
struct PartSoftware {
  NamedSoftware named{};
  bool general = false;  ///< a library or a front end, which runs on whatever another part names: `PyTorch (FSDP)`
};

/// The software of a part of a cell, with as many of its last words as it takes.
PartSoftware named_in(std::string_view part) {
  for (;;) {
    for (const std::string_view name : {part, without_maker(part)})
      if (const NamedSoftware named = with_version(name, same_letters); named.software != nullptr) {
        const std::span<const std::string_view> general = named.software->general;
        return {named,
                among(general, name, same_letters) || among(general, name.substr(0, name.rfind(' ')), same_letters)};
      }
    const std::size_t space = part.rfind(' ');
    if (space == std::string_view::npos || !is_remark(part.substr(space + 1))) return {};
    part = trim(part.substr(0, space));
  }
}

/// Does the cell name software that it did not run?
bool compares(std::string_view cell) {
  const std::string words = lowered(std::string(cell));
  for (const std::string_view word : {"not", "no", "without", "unlike", "compared", "versus", "vs", "than"})
    if (has_word(words, word)) return true;
  return false;
}

/// Letters that two names have in common at their beginning.
std::size_t common(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (count < std::min(a.size(), b.size()) && lower_case(a[count]) == lower_case(b[count])) ++count;
  return count;
}

}  // namespace

bool has_word(std::string_view text, std::string_view word) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !letter(text[at - 1])) && (end == text.size() || !letter(text[end]))) return true;
  }
  return false;
}

bool RunSigns::says(std::string_view word) const { return has_word(words, word); }

std::span<const RunSoftware> run_software() { return stacks::run_software(); }

const RunSoftware* software_of_key(std::string_view key) {
  for (const RunSoftware& software : run_software())
    if (software.key == key) return &software;
  return nullptr;
}

NamedSoftware named_software(std::string_view cell) {
  if (const NamedSoftware whole = with_version(cell, same_but_for_case); whole.software != nullptr) return whole;
  if (compares(cell)) return {};
  NamedSoftware found;
  for (const std::string_view part : parts_of(cell)) {
    PartSoftware in_part = named_in(part);
    in_part.named.loosely = true;
    if (in_part.named.software == nullptr) continue;
    if (!in_part.general) return in_part.named;
    if (found.software == nullptr) found = in_part.named;
  }
  return found;
}

std::string names_like(std::string_view cell) {
  constexpr std::size_t kLeast = 3;  // letters
  std::size_t most = kLeast;
  std::string all;
  for (const RunSoftware& software : run_software())
    for (const std::string_view name : software.names) {
      const std::size_t letters = common(cell, name);
      if (letters < most) continue;
      if (letters > most) all.clear();
      most = letters;
      all.append(all.empty() ? "`" : ", `").append(name).append("`");
    }
  return all;
}

RunDefaults run_defaults(const RunSoftware& software, const RunSigns& signs) {
  RunDefaults defaults{software.stack(), {}};
  software.runs(signs, defaults);
  return defaults;
}

}  // namespace plan
