#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "presets/store.hpp"

namespace plan {

/// `seq` and `global_batch`, where a model's file or preset does not say what it was trained with.
[[nodiscard]] std::vector<std::string> unpublished(std::string_view word, const StoreOptions& options);

}  // namespace plan
