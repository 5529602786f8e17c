#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plan {

enum class PresetKind { Model, Gpu, Cluster };

/// Where presets are looked for, first hit wins: the folders of `path`, `data_home`, `installed`, then the embedded
/// ones. Each folder holds models/, gpus/ and clusters/.
struct StoreOptions {
  std::vector<std::string> path{};  ///< $PLAN_PRESET_PATH, separated by ":"
  std::string data_home{};          ///< $XDG_DATA_HOME/plan/presets
  std::string installed{};          ///< <executable>/../share/plan/presets
  bool files = true;                ///< a word may also be the path of a file

  static StoreOptions from_environment();
};

/// One preset, for lists and completion.
struct PresetEntry {
  std::string name{};
  std::vector<std::string> aliases{};
  std::string origin{};
  std::string text{};  ///< the whole file
};

/// What a kind of preset is called: its folder, in a sentence, and the flag that names one.
struct PresetWords {
  std::string_view folder, noun, flag;
};
[[nodiscard]] PresetWords words_of(PresetKind kind);

/// A name as it is compared: without case, hyphens, underscores, blanks, and the colon that Ollama writes before a
/// size. Dots count: qwen2.5-7b is not qwen2-57b.
[[nodiscard]] std::string folded_name(std::string_view name);

/// Everything of a kind in the order of precedence.
[[nodiscard]] std::vector<PresetEntry> all_entries(PresetKind kind, const StoreOptions& options);

/// Every preset by name; one that is overridden appears once, with the origin that wins.
[[nodiscard]] std::vector<PresetEntry> list_presets(PresetKind kind, const StoreOptions& options);

/// The first preset of that name, source by source; in each source a name goes before an alias.
[[nodiscard]] std::optional<PresetEntry> find_entry(PresetKind kind, std::string_view word,
                                                    const StoreOptions& options);

}  // namespace plan
