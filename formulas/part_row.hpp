#pragma once

#include "formulas/layer_rows.hpp"

/// What the rows of all mixers and feed-forwards with a shape say in the same way.
namespace plan {

inline constexpr auto kRequired = ShapeField::Need::Required;

/// The part whose `Kind` a layer's member `Chosen` names and whose shape is its member `Shape`.
template <auto Chosen, auto Kind, auto Shape, auto Weights>
constexpr LayerPartRow part_row(std::string_view name, std::span<const ShapeField> fields,
                                decltype(LayerPartRow::keep) keep, decltype(LayerPartRow::traced_keep) traced_keep) {
  return {.name = name,
          .fields = fields,
          .put = [](Layer& to, const Layer& from) { to.*Chosen = Kind, to.*Shape = from.*Shape; },
          .weights = [](LayerWeights& out, std::int64_t h, const Layer& layer) { Weights(out, h, layer.*Shape); },
          .keep = keep,
          .traced_keep = traced_keep};
}

/// The numbers of heads that members of a shape state.
template <auto Shape, auto... Members>
std::array<std::int64_t, 2> heads_in(const Layer& layer) {
  return {(layer.*Shape.*Members)...};
}

}  // namespace plan
