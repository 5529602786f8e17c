#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formulas/layer_rows.hpp"
#include "presets/yaml.hpp"

namespace plan {

/// A named half of a layer: what mixes tokens, or what follows.
struct ModelPart {
  std::string name{};
  const LayerPartRow* of = nullptr;
  Layer layer{};  ///< only the shape of `of` is set
  bool used = false;
};

/// All that a layer can be made of: mixers, then feed-forwards.
[[nodiscard]] std::vector<const LayerPartRow*> layer_parts();

inline constexpr Named<QkNorm> kQkNormNames[] = {
    {QkNorm::None, "none"}, {QkNorm::PerHead, "head"}, {QkNorm::Full, "full"}};
inline constexpr Named<Norm> kNormNames[] = {{Norm::Rms, "rms"}, {Norm::Layer, "layer"}};

/// Reads the keys of a part over the values in its layer. With `all`, those without a default are required.
void read_part(yaml::Map& map, ModelPart& part, bool all);

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
