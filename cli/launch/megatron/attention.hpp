#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/launch/megatron/megatron.hpp"

/// What mixes tokens in the layers that Megatron-LM's arguments describe.
namespace plan::megatron {

/// Layers that `--FLAG` marks by a list or by a period, of `depth`. Nothing if it cannot be read.
/// @param first whether a period marks its first layer alone (`--moe-layer-freq`), or all but its last (others)
[[nodiscard]] std::optional<std::vector<bool>> marked_layers(std::string_view text, std::size_t depth, bool first);

/// The attention that the arguments give every layer: `layer` gets its mixer and its shape.
void put_attention(const MegatronArgs& args, std::int64_t hidden, Layer& layer);

/// The layers of `--window-size` see so many tokens.
void put_windows(const MegatronArgs& args, Model& model);

/// The layers of `--linear-attention-freq` scan where `--experimental-attention-variant` says so. An error: what
/// Megatron-LM could not build.
[[nodiscard]] std::optional<Error> put_linear_attention(const MegatronArgs& args, Model& model);

/// The kind of layer of which prediction modules are made: like the last, and its own indexer chooses its keys.
[[nodiscard]] int predicted_kind(const MegatronArgs& args, Model& model);

/// Gated DeltaNet as `--linear-*` state it.
[[nodiscard]] DeltaNetShape delta_net(const MegatronArgs& args);

/// Whether `--experimental-attention-variant` asks for sparse attention by an indexer (DeepSeek's DSA).
[[nodiscard]] bool is_sparse(const MegatronArgs& args);

}  // namespace plan::megatron
