#pragma once

#include <string_view>

#include "formulas/result.hpp"
#include "presets/entries.hpp"

namespace plan {

/// That no preset goes by this word, with what the user may have meant.
[[nodiscard]] Error unknown_name(PresetKind kind, std::string_view word, const StoreOptions& options);

}  // namespace plan
