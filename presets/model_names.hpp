#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "presets/entries.hpp"

namespace plan {

/// Another name under which the layers of a checkpoint may be known.
struct OtherName {
  std::string text{};
  bool exact = true;  ///< false: without the suffix of a variant
};

/// `owner/Qwen3-8B-Instruct`: qwen3-8b-instruct, then owner/qwen3-8b and qwen3-8b. Variants are tuned, quantised or
/// converted, and keep the layers of the model that they were made from.
[[nodiscard]] std::vector<OtherName> other_names(std::string_view checkpoint);

/// What in a checkpoint's name says that its weights are stored in fewer bits than training holds: `awq`, `bnb-4bit`,
/// `q4_k_m`; a view of a constant, empty if nothing does.
[[nodiscard]] std::string_view stored_format(std::string_view checkpoint);

/// What a checkpoint's name says of its model: `Qwen/Qwen3.5-2B-Base` is 2e9 parameters of the family `qwen35`.
struct FamilyAndSize {
  std::string family{};     ///< letters and digits before the size, in lower case; empty if the name states no size
  double parameters = 0.0;  ///< as written, not as counted
};
[[nodiscard]] FamilyAndSize family_and_size(std::string_view checkpoint);

/// Of these names those of the family of `checkpoint`, the nearest in size first, at most `most`.
[[nodiscard]] std::vector<std::string> nearest_in_family(std::string_view checkpoint,
                                                         const std::vector<std::string>& names, std::size_t most);

/// The preset one of whose names differs from `checkpoint` in nothing but the way that it was tuned or quantised:
/// `granite-3.0-3b-a800m-instruct` beside an alias that ends with `-base`.
[[nodiscard]] std::optional<PresetEntry> twin_of(std::string_view checkpoint, const StoreOptions& options);

/// The preset whose name, with its size, a checkpoint's holds among other words, as tuned ones do; empty if none, or
/// where the rest states another size.
[[nodiscard]] std::string model_inside(std::string_view checkpoint, const std::vector<PresetEntry>& entries);

}  // namespace plan
