#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace plan {

/// The layers that a Python expression over lists of 0 and 1 marks: `[0]*3+[1]*58`, `([1]*3+[0]*1)*12`, `[0,1,1]`.
/// Nothing if it is no such expression.
[[nodiscard]] std::optional<std::vector<bool>> listed_layers(std::string_view text);
/// Nor if it does not name `depth` layers.
[[nodiscard]] std::optional<std::vector<bool>> listed_layers(std::string_view text, std::size_t depth);

}  // namespace plan
