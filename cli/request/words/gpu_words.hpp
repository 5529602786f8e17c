#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/result.hpp"
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

/// A machine that goes by its own name and is no cloud's: DGX and HGX boxes, NVL72 racks, with how many GPUs each has.
[[nodiscard]] std::optional<CountedGpus> machine_of_gpus(std::string_view kind, const StoreOptions& store);

/// That so many of such a machine may be machines or GPUs: `2xDGX H100`. Nothing of other words.
[[nodiscard]] std::optional<Error> machines_or_gpus(std::string_view key, std::string_view word,
                                                    const StoreOptions& store, bool file);

/// Several kinds in one word, each once, of words that part them otherwise than `--gpus` does: `8xh100 + 8xa100`.
[[nodiscard]] std::optional<std::vector<CountedGpus>> several_kinds(std::string_view word, const StoreOptions& store);

/// That `--key` does not take them so, and what to write instead, or that no job has so many.
[[nodiscard]] Error refused_kinds(std::string_view key, std::string_view word, const std::vector<CountedGpus>& kinds,
                                  bool file);

/// A number of GPUs of no kind in other words than their number: `16 GPUs`, `2 nodes`, `2 nodes x 8`, `2*8`, `0,1,2,3`.
struct WordedCount {
  int gpus = 0;     ///< 0: the word does not say how many all nodes have together
  int of_node = 0;  ///< of each node, where the word does not say it
};
/// `kind`: the GPU whose usual nodes are meant, of 8 if there is no such GPU.
[[nodiscard]] std::optional<WordedCount> worded_count(std::string_view word, std::string_view kind,
                                                      const StoreOptions& store);

/// That `--gpus` does not take it, and what to write instead.
[[nodiscard]] Error refused_words(std::string_view word, const WordedCount& meant, bool file);

/// That `--gpus` takes no such word, which names no GPU that is known.
[[nodiscard]] Error refused_number(std::string_view word, bool file);

/// That `--key` does not take such a word, and what to write instead, in a file where `file`. `kind_alone`: the number
/// is given by a word of its own.
[[nodiscard]] Error refused_count(std::string_view key, std::string_view word, const CountedGpus& meant,
                                  bool kind_alone, bool file);

}  // namespace plan
