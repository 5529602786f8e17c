#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/launch/megatron/megatron.hpp"

/// Layers of several kinds, which Megatron-LM spells with a letter each.
namespace plan::megatron {

/// What `--hybrid-layer-pattern` says: `MEM*|EME/*E/*E` is seven layers in two segments of a pipeline, and two
/// prediction modules of two layers.
struct HybridPattern {
  std::string layers{};         ///< a letter each, from front to back
  std::vector<int> segments{};  ///< layers of each chunk of the pipeline; one where the pattern has no `|`
  std::string predicted{};      ///< the layers of one prediction module
  int modules = 0;              ///< prediction modules
};

inline constexpr std::int64_t kMambaTaps = 4;  ///< of its convolution, which no flag states

/// The model's layers as letters, cut into the chunks of a pipeline; no chunks: not cut.
[[nodiscard]] std::string hybrid_text(const Model& model, const std::vector<int>& chunks);

/// The flag that states the layers, under any of its names; null where every layer is of the usual kind.
[[nodiscard]] const char* hybrid_flag(const MegatronArgs& args);

/// The pattern as it is cut; none where the flag names no layers (`--is-hybrid-model` alone).
[[nodiscard]] std::optional<HybridPattern> hybrid_pattern(const MegatronArgs& args);

/// What hinders the pattern from being a model, if anything.
[[nodiscard]] std::optional<Error> judge(const MegatronArgs& args, const HybridPattern& pattern);

/// Puts the pattern's layers in place of `model`'s own, whose one kind has the shapes of attention and feed-forward.
/// @param moe the experts that the flags describe
void put_hybrid_layers(const MegatronArgs& args, const HybridPattern& pattern, const MoeShape& moe, Model& model);

}  // namespace plan::megatron
