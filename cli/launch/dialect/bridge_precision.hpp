#pragma once

#include <span>
#include <string_view>

#include "formulas/training.hpp"

namespace plan {

/// A registered mixed-precision recipe of Megatron-Bridge (training/mixed_precision.py): its format, and the layers at
/// either end that it leaves in bf16.
struct BridgePrecision {
  std::string_view name;
  Precision precision;
  Bf16Layers bf16_layers{};
};

/// All of them; where several do the same, the one to write comes first.
[[nodiscard]] std::span<const BridgePrecision> bridge_precisions();

/// The recipe of this name, in small letters; null if there is none.
[[nodiscard]] const BridgePrecision* bridge_precision(std::string_view name);

/// The recipe that trains so; null if there is none.
[[nodiscard]] const BridgePrecision* bridge_precision(Precision precision, const Bf16Layers& layers);

}  // namespace plan
