#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "presets/store.hpp"

namespace plan {

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

/// The first preset of that name, source by source; in each source a name goes before an alias.
[[nodiscard]] std::optional<PresetEntry> find_entry(PresetKind kind, std::string_view word,
                                                    const StoreOptions& options);

}  // namespace plan
