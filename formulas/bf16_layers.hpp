#pragma once

#include "formulas/model.hpp"
#include "formulas/training.hpp"

namespace plan {

/// The format of a layer's products: the training's, or bf16 where that is narrower and the layer stays out of it.
[[nodiscard]] Precision precision_of(const Layer& layer, const Training& training);

/// Does layer `layer` of `depth` lie at an end that stays in bf16?
[[nodiscard]] bool stays_in_bf16(const Bf16Layers& ends, int layer, int depth);

/// The model with these of its layers in bf16 and no others. Layers of one kind that differ in it become two kinds;
/// those of multi-token prediction keep the training's format. Counts beyond the depth take all layers.
[[nodiscard]] Model with_bf16_layers(Model model, const Bf16Layers& ends);

}  // namespace plan
