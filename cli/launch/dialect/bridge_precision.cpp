// Number formats as Megatron-Bridge's recipes name them (0.6, src/megatron/bridge/training/mixed_precision.py). Current
// scaling leaves the first and the last layer in bf16 unless a recipe says otherwise. Tested by
// tests/launch/bf16_layers_test.cpp.
#include "cli/launch/dialect/bridge_precision.hpp"

#include <algorithm>

namespace plan {
namespace {

constexpr BridgePrecision kPrecisions[] = {
    {"bf16_mixed", Precision::Bf16},
    {"fp16_mixed", Precision::Fp16},
    {"bf16_with_fp8_delayed_scaling_mixed", Precision::Fp8Delayed},
    {"bf16_with_fp8_current_scaling_mixed", Precision::Fp8Tensorwise, {1, 1}},
    {"nemotron_h_bf16_with_fp8_current_scaling_mixed", Precision::Fp8Tensorwise, {2, 2}},
    {"nanov2_bf16_with_fp8_current_scaling_mixed", Precision::Fp8Tensorwise, {2, 2}},
    {"bf16_with_fp8_subchannel_scaling_mixed", Precision::Fp8Blockwise},
    {"bf16_with_mxfp8_mixed", Precision::Mxfp8},
    {"bf16_with_nvfp4_mixed", Precision::Nvfp4},
    {"nemotron_3_super_bf16_with_nvfp4_mixed", Precision::Nvfp4, {0, 14}},
    {"fp16_with_fp8_delayed_scaling_mixed", Precision::Fp8Delayed},
    {"fp16_with_fp8_current_scaling_mixed", Precision::Fp8Tensorwise, {1, 1}},
    {"fp16_with_fp8_subchannel_scaling_mixed", Precision::Fp8Blockwise},
    {"fp16_with_mxfp8_mixed", Precision::Mxfp8},
};

}  // namespace

std::span<const BridgePrecision> bridge_precisions() { return kPrecisions; }

const BridgePrecision* bridge_precision(std::string_view name) {
  const auto* row = std::ranges::find(kPrecisions, name, &BridgePrecision::name);
  return row == std::end(kPrecisions) ? nullptr : row;
}

const BridgePrecision* bridge_precision(Precision precision, const Bf16Layers& layers) {
  const auto* row = std::ranges::find_if(
      kPrecisions, [&](const BridgePrecision& one) { return one.precision == precision && one.bf16_layers == layers; });
  return row == std::end(kPrecisions) ? nullptr : row;
}

}  // namespace plan
