#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plan {

/// A layout in the notation of papers, of other tools or of people, as `--layout` takes it: `T8P4D2`, `8-way TP`,
/// `tensor_model_parallel_size: 8`, `{"tp": 8}`. Nothing where a word or a number is left over.
[[nodiscard]] std::optional<std::string> layout_in_words(std::string_view text);

}  // namespace plan
