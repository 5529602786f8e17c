// What is said of a name that no preset has: the nearest one, the kind that has it, or why there is none. Tested by
// tests/presets/checkpoints_test.cpp and tests/cli/proposals_test.cpp.
#include "presets/unknown_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/gpu_names.hpp"
#include "presets/hardware.hpp"
#include "presets/machines.hpp"
#include "presets/model_names.hpp"
#include "presets/suggest.hpp"
#include "presets/unmodelled.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using Names = std::vector<std::string>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Does a name have a word as a part between hyphens? "7b" is one of llama2-7b, not of 70b or 57b. A family ends where
/// its version begins: "llama" is one of llama2-7b.
bool has_part(std::string_view name, std::string_view word) {
  const std::string parts = "-" + lowered(std::string(name)) + "-", part = "-" + lowered(std::string(word));
  for (std::size_t at = parts.find(part); at != std::string::npos; at = parts.find(part, at + 1)) {
    const char next = parts[at + part.size()];
    if (next == '-' || (is_digit(next) && !is_digit(part.back()))) return true;
  }
  return false;
}

/// Names of presets that have `word` as such a part.
Names names_with(std::string_view word, const std::vector<PresetEntry>& entries) {
  Names found;
  for (const PresetEntry& entry : entries)
    if (!word.empty() && has_part(entry.name, word)) found.push_back(entry.name);
  return found;
}

/// Says which names hold a word; of many the first, and how many more there are.
std::string holding_help(std::string_view word, Names names) {
  constexpr std::size_t kMost = 12;
  const std::size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return fmt::format("with `{}` in its name: {}{}", word, fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

/// The longest beginning of `word` that is a part of names, without its version: `llama` of `llama-5`.
std::string family_of(std::string_view word, const std::vector<PresetEntry>& entries) {
  constexpr std::size_t kLeast = 3;  // letters; fewer are in too many names
  for (std::size_t end = word.size(); end > kLeast; --end) {
    const char last = word[end - 1];
    if (!is_digit(last) && std::string_view("-._ :").find(last) == std::string_view::npos) continue;
    const std::string_view begin = word.substr(0, end - 1);
    if (!begin.ends_with('-') && !begin.ends_with('.') && !names_with(begin, entries).empty())
      return std::string(begin);
  }
  return {};
}

/// The presets of the family that `word` names, the nearest in size first.
Names relatives(std::string_view word, const std::vector<PresetEntry>& entries) {
  constexpr std::size_t kMost = 3;
  Names names;
  for (const PresetEntry& entry : entries) names.push_back(entry.name);
  return nearest_in_family(word, names, kMost);
}

/// Words of size, and of what else a model takes or gives than its family: a slip is seldom in one of them.
constexpr auto kTelling = word_list([] {
  return "nano tiny mini micro small medium large lite plus pro max omni audio vision vl mamba embed rerank linear ocr";
});

/// The numbers of a name, apart from each other, and its telling words: qwen3-vl-2b has 3 and 2, not 32.
std::string tells_of(std::string_view name) {
  std::string numbers;
  for (const char c : name) {
    const bool digit = (c >= '0' && c <= '9') || c == '.';
    if (digit || (!numbers.empty() && numbers.back() != ' ')) numbers += digit ? c : ' ';
  }
  const std::string low = lowered(std::string(name));
  for (const std::string_view word : kTelling)
    if (low.find(word) != std::string::npos) numbers += word;
  return numbers;
}

/// The name that is spelt most like `word`; of models, one with the same numbers: a slip is seldom in a version or a
/// size, and a job for another one is another job. So it is of hardware.
std::string nearest_of(PresetKind kind, std::string_view word, Names names) {
  const std::string tells = tells_of(word);
  std::erase_if(names, [&](const std::string& name) {
    return kind == PresetKind::Model ? tells_of(name) != tells : !slip_of_gpu(word, name);
  });
  return nearest_name(word, names);
}

/// The name and all aliases of each.
Names all_names(const std::vector<PresetEntry>& entries) {
  Names names;
  for (const PresetEntry& entry : entries) {
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return names;
}

/// What a word that is no GPU's preset may mean: the preset of a device, one of several, or those of its maker.
Names about_gpu(std::string_view word, const std::vector<PresetEntry>& entries, const StoreOptions& options) {
  Names help;
  const std::string parts = gpu_of_parts(word, entries), sheet = gpu_of_driver(word, entries, options);
  const Names stem = gpus_of_stem(word, entries);
  Names holding = names_with(word, entries);
  if (holding.empty() && sheet.empty() && parts.empty()) holding = gpus_holding(word, entries);
  std::string near = parts == sheet ? "" : parts;  // what both find is no mere likeness
  if (parts.empty() && machines_called(word).empty() && stem.size() < 2)
    near = nearest_of(PresetKind::Gpu, word, all_names(entries));
  const Names same = sheet.empty() && parts.empty() ? gpus_of_device(word, entries) : Names{};
  if (!holding.empty())
    help.push_back(holding_help(word, holding));
  else if (stem.size() > 1)
    help.push_back(fmt::format("that is one of `{}`: write which", fmt::join(stem, "`, `")));
  else if (!same.empty())
    help.push_back(fmt::format("of that name, in another form or with other memory: `{}`", fmt::join(same, "`, `")));
  else if (!near.empty())
    help.push_back(fmt::format("a GPU with a similar name exists: `{}`", near));
  else if (!sheet.empty())
    help.push_back(fmt::format("that is `{}`", sheet));
  else if (const Names series = gpus_of_series(word, entries); !series.empty() && machines_called(word).empty())
    help.push_back(fmt::format("of its series, and another GPU: `{}`", fmt::join(series, "`, `")));
  if (const Names make = gpus_of_make(word, entries); !make.empty())
    help.push_back(fmt::format("of that make are {}", fmt::join(make, ", ")));
  return help;
}

/// What a word that is no model's may mean.
Names about_model(std::string_view word, const std::vector<PresetEntry>& entries) {
  const Names family = relatives(word, entries);
  const bool size = !word.empty() && std::all_of(word.begin(), word.end(), is_digit);  // `405` for 405b
  const std::string part = size ? std::string(word) + "b" : std::string(word);
  const Names holding = names_with(part, entries);
  const std::string near = nearest_of(PresetKind::Model, word, all_names(entries));
  const std::string inside = model_inside(word, entries);
  Names help;
  if (!family.empty())
    help.push_back(fmt::format("models of its family, the nearest in size first: `{}`", fmt::join(family, "`, `")));
  else if (!holding.empty())
    help.push_back(holding_help(part, holding));
  else if (!inside.empty())
    help.push_back(fmt::format("if it was tuned from that model, it has the layers of `{}`", inside));
  else if (!near.empty())
    help.push_back(fmt::format("a model with a similar name exists: `{}`", near));
  else if (const std::string family = family_of(base_name(word), entries); !family.empty())
    help.push_back(holding_help(family, names_with(family, entries)));
  help.emplace_back("any other by its checkpoint's configuration: `--model path/to/config.json`");
  return help;
}

/// What a word that is no cluster's may mean.
Names about_cluster(std::string_view word, const std::vector<PresetEntry>& entries, const StoreOptions& options) {
  const Names holding = names_with(word, entries);
  Names help;
  if (!holding.empty())
    help.push_back(holding_help(word, holding));
  else if (const std::string near = nearest_of(PresetKind::Cluster, word, all_names(entries));
           !near.empty() && machines_called(word).empty())
    help.push_back(fmt::format("a cluster with a similar name exists: `{}`", near));
  if (find_entry(PresetKind::Gpu, word, options)) return help;
  const std::vector<PresetEntry> gpus = list_presets(PresetKind::Gpu, options);
  std::string gpu = gpu_of_parts(word, gpus);
  if (gpu.empty()) gpu = gpu_of_driver(word, gpus, options);
  if (!gpu.empty() && help.empty()) help.push_back(fmt::format("that is a GPU: write `--gpu {}`", gpu));
  return help;
}

}  // namespace

Error unknown_name(PresetKind kind, std::string_view word, const StoreOptions& options) {
  const PresetWords w = words_of(kind);
  const std::vector<PresetEntry> entries = list_presets(kind, options);
  const std::string shown = yaml::printable(word);
  Error error{fmt::format("unknown_{}", kind == PresetKind::Gpu ? "gpu" : w.noun),
              fmt::format("unknown {} `{}`", w.noun, shown)};
  const Unmodelled* lacking = kind == PresetKind::Model ? unmodelled_name(word) : nullptr;
  if (lacking != nullptr)
    error.message += fmt::format(": it has {}, which is not modelled", lacking->part);
  else if (kind == PresetKind::Model)
    error.help = about_model(word, entries);
  else
    error.help = kind == PresetKind::Gpu ? about_gpu(word, entries, options) : about_cluster(word, entries, options);
  for (const PresetKind other : {PresetKind::Model, PresetKind::Gpu, PresetKind::Cluster})
    if (const auto entry = other == kind ? std::nullopt : find_entry(other, word, options))
      error.help.push_back(
          fmt::format("`{}` is a {}: write `{} {}`", shown, words_of(other).noun, words_of(other).flag, entry->name));
  if (std::string said = about_machines(word); !said.empty() && kind != PresetKind::Model)
    error.help.push_back(std::move(said));
  const std::string_view form = kind == PresetKind::Gpu ? " in the form that `plan show gpu h100-sxm` prints" : "";
  error.help.push_back(
      fmt::format("list all with `plan list {}`, or give a file{}: {} ./mine.yaml", w.folder, form, w.flag));
  return error;
}

}  // namespace plan
