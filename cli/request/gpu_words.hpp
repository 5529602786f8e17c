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
  bool cores = false;     ///< the word counts the two TensorCores of each TPU
  std::string machine{};  ///< that a cloud rents and the word names
};

/// What a word means that says both in another way than `--gpus 8xh100` does: `h100x8`, `8 h100`, `h100:8`, `2x8xh100`
/// for nodes, Cloud TPU's types, `v5p-512`, and machines of clouds, `p5.48xlarge` and `2xp5.48xlarge`.
[[nodiscard]] std::optional<CountedGpus> counted_gpus(std::string_view word, const StoreOptions& store);

/// That `--key` does not take such a word, and what to write instead, in a file where `file`. `kind_alone`: the number
/// is given by a word of its own.
[[nodiscard]] Error refused_count(std::string_view key, std::string_view word, const CountedGpus& meant,
                                  bool kind_alone, bool file);

}  // namespace plan
