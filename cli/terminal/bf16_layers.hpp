#pragma once

#include <string>
#include <string_view>

#include "formulas/result.hpp"
#include "formulas/training.hpp"

namespace plan {

/// Reads `--bf16-layers 1,2`: one layer at the start of the model, two at its end. Error otherwise.
[[nodiscard]] Result<Bf16Layers> read_bf16_layers(std::string_view text);

/// Writes such layers as the flag takes them.
[[nodiscard]] std::string bf16_layers_text(const Bf16Layers& layers);

}  // namespace plan
