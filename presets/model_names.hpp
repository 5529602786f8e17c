#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plan {

/// Another name under which the layers of a checkpoint may be known.
struct OtherName {
  std::string text{};
  bool exact = true;  ///< false: without the suffix of a variant
};

/// `owner/Qwen3-8B-Instruct`: qwen3-8b-instruct, then owner/qwen3-8b and qwen3-8b. Variants are tuned, quantised or
/// converted, and keep the layers of the model that they were made from.
[[nodiscard]] std::vector<OtherName> other_names(std::string_view checkpoint);

}  // namespace plan
