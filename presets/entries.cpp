// Files of presets and what they are called: user folders over installed files over the copies inside the program.
// Names and aliases come from the first lines of each file, without parsing the rest. Tested by
// tests/presets/store_test.cpp.
#include "presets/entries.hpp"

#include <algorithm>
#include <filesystem>

#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/embedded.hpp"
#include "presets/header.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

/// The YAML files of one kind in a folder, sorted.
std::vector<fs::path> files_in(const std::string& folder, PresetKind kind) {
  std::vector<fs::path> files;
  if (folder.empty()) return files;
  std::error_code status;
  for (fs::directory_iterator at(fs::path(folder) / words_of(kind).folder, status), end; at != end;
       at.increment(status))
    if (at->path().extension() == ".yaml" && at->is_regular_file(status)) files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<PresetEntry> folder_entries(const std::string& folder, PresetKind kind) {
  std::vector<PresetEntry> entries;
  for (const fs::path& file : files_in(folder, kind)) {
    Result<std::string> text = yaml::read_text(file.string());
    if (text) entries.push_back({file.stem().string(), scan_list(*text, "aliases"), file.string(), *std::move(text)});
  }
  return entries;
}

PresetEntry embedded_entry(const EmbeddedFile& file) {
  return {std::string(file.name), scan_list(file.text, "aliases"), "embedded", std::string(file.text)};
}

/// Those of one kind that the program carries. They never change, and a command asks for them several times.
const std::vector<PresetEntry>& embedded_entries(PresetKind kind) {
  const auto gather = [](PresetKind of) {
    std::vector<PresetEntry> entries;
    for (const EmbeddedFile& file : embedded_files())
      if (file.folder == words_of(of).folder) entries.push_back(embedded_entry(file));
    return entries;
  };
  static const std::vector<PresetEntry> models = gather(PresetKind::Model), gpus = gather(PresetKind::Gpu),
                                        clusters = gather(PresetKind::Cluster);
  return kind == PresetKind::Model ? models : kind == PresetKind::Gpu ? gpus : clusters;
}

/// Folders on disk in the order of precedence.
std::vector<std::string> folders(const StoreOptions& options) {
  std::vector<std::string> all = options.path;
  all.push_back(options.data_home);
  all.push_back(options.installed);
  return all;
}

/// One entry by its own name, else by a whole alias, else by an alias without its owner, which copies on a disk lack:
/// `k2` is Kimi's, though LLM360's is `LLM360/K2`.
bool names(const PresetEntry& entry, std::string_view wanted, int pass) {
  const auto is = [&](std::string_view name) { return folded_name(name) == wanted; };
  if (pass == 0) return is(entry.name);
  return std::any_of(entry.aliases.begin(), entry.aliases.end(),
                     [&](const std::string& alias) { return is(pass == 1 ? alias : base_name(alias)); });
}

}  // namespace

std::string folded_name(std::string_view name) { return without_signs(name, "-_ :"); }

PresetWords words_of(PresetKind kind) {
  switch (kind) {
    case PresetKind::Model: return {"models", "model", "--model"};
    case PresetKind::Gpu: return {"gpus", "GPU", "--gpu"};
    case PresetKind::Cluster: return {"clusters", "cluster", "--cluster"};
  }
  return {"models", "model", "--model"};
}

std::vector<PresetEntry> all_entries(PresetKind kind, const StoreOptions& options) {
  std::vector<PresetEntry> entries;
  for (const std::string& folder : folders(options))
    for (PresetEntry& entry : folder_entries(folder, kind)) entries.push_back(std::move(entry));
  const std::vector<PresetEntry>& embedded = embedded_entries(kind);
  entries.insert(entries.end(), embedded.begin(), embedded.end());
  return entries;
}

std::optional<PresetEntry> find_entry(PresetKind kind, std::string_view word, const StoreOptions& options) {
  const std::string wanted = folded_name(word);
  if (wanted.empty()) return std::nullopt;
  const auto find_in = [&](const std::vector<PresetEntry>& entries) -> std::optional<PresetEntry> {
    for (const int pass : {0, 1, 2})
      for (const PresetEntry& entry : entries)
        if (names(entry, wanted, pass)) return entry;
    return std::nullopt;
  };
  for (const std::string& folder : folders(options))
    if (std::optional<PresetEntry> found = find_in(folder_entries(folder, kind))) return found;
  return find_in(embedded_entries(kind));
}

std::vector<PresetEntry> list_presets(PresetKind kind, const StoreOptions& options) {
  std::vector<PresetEntry> entries = all_entries(kind, options);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const PresetEntry& a, const PresetEntry& b) { return a.name < b.name; });
  const auto end = std::unique(entries.begin(), entries.end(),
                               [](const PresetEntry& a, const PresetEntry& b) { return a.name == b.name; });
  entries.erase(end, entries.end());
  return entries;
}

}  // namespace plan
