#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "presets/store.hpp"

namespace plan {

/// A number of GPUs and their kind, which a preset has.
struct CountedGpus {
  int gpus = 0;
  std::string kind{};
  bool cores = false;  ///< the word counts the two TensorCores of each TPU
};

/// What a word means that says both in another way than `--gpus 8xh100` does: `h100x8`, `8 h100`, `h100:8`, `2x8xh100`
/// for nodes, and Cloud TPU's types, `v5p-512`.
[[nodiscard]] std::optional<CountedGpus> counted_gpus(std::string_view word, const StoreOptions& store);

}  // namespace plan
