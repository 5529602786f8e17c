#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/model.hpp"
#include "presets/yaml.hpp"

namespace plan {

/// A named half of a layer: what mixes tokens, or what follows.
struct ModelPart {
  std::string name{};
  std::string of{};  ///< attention, latent, mamba, delta, dense or moe
  Layer layer{};     ///< only the shape of `of` is set
  bool used = false;
};

inline constexpr std::string_view kPartNames[] = {"attention", "latent", "mamba", "delta", "dense", "moe"};

inline constexpr Named<QkNorm> kQkNormNames[] = {
    {QkNorm::None, "none"}, {QkNorm::PerHead, "head"}, {QkNorm::Full, "full"}};
inline constexpr Named<Norm> kNormNames[] = {{Norm::Rms, "rms"}, {Norm::Layer, "layer"}};

[[nodiscard]] bool is_mixer(std::string_view part);

/// Reads the keys of part `of` over the values in `layer`. With `all`, those without a default are required.
void read_part(yaml::Map& map, std::string_view of, Layer& layer, bool all);

/// Sets mixer or ffn of `layer`, with its shape, from `part`.
void put_part(const ModelPart& part, Layer& layer);

/// Front-to-back list of layers: `3 x latent+dense, 58 x latent+moe`, `13 x (local+dense, attention+dense)`. Empty with
/// a `problem` if it is none.
struct LayerList {
  std::vector<std::string> layers{};  ///< one kind, e.g. "latent+moe", per layer
  std::string problem{};
};
[[nodiscard]] LayerList parse_layers(std::string_view text);

/// The same text, short: runs and repeated patterns folded.
[[nodiscard]] std::string format_layers(const std::vector<std::string>& layers);

}  // namespace plan
