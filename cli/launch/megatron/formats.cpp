// Number formats of the products from Megatron-LM's arguments, and the layers that stay in bf16 beside fp8 or fp4
// (transformer_config.py; fp8_utils.is_first_last_bf16_layer). Tested by tests/launch/bf16_layers_test.cpp.
#include <cstdint>
#include <optional>
#include <string>

#include "cli/launch/megatron/builder.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/terminal/bf16_layers.hpp"
#include "formulas/names.hpp"

namespace plan::megatron {
namespace {

Precision precision(const MegatronArgs& args) {
  if (args.has("fp4-format")) return Precision::Nvfp4;
  if (args.has("fp8-format") || args.has("fp8-hybrid")) {
    const std::string recipe = args.text("fp8-recipe");
    if (recipe == "tensorwise") return Precision::Fp8Tensorwise;
    if (recipe == "mxfp8") return Precision::Mxfp8;
    if (recipe == "blockwise") return Precision::Fp8Blockwise;
    return Precision::Fp8Delayed;
  }
  if (args.has("bf16")) return Precision::Bf16;
  return args.has("fp16") ? Precision::Fp16 : Precision::Fp32;
}

/// Layers at one end that stay in bf16: one where nobody counts them.
int layers_at(Builder& builder, const char* flag) {
  constexpr std::int64_t kMost = 1'000'000;  // deeper than any model
  if (!builder.args.has(flag)) return 1;
  const std::optional<std::int64_t> value = builder.args.integer(flag);
  if (value && *value >= 0 && *value <= kMost) return static_cast<int>(*value);
  builder.wrong(flag, fmt::format("takes a number of layers, not `{}`", builder.args.text(flag)));
  return 1;
}

}  // namespace

void formats(Builder& builder, Training& training) {
  const MegatronArgs& args = builder.args;
  training.precision = precision(args);
  const std::string format(name(training.precision));
  const std::string where = args.where(args.has("fp4-format")   ? "fp4-format"
                                       : args.has("fp8-format") ? "fp8-format"
                                       : args.has("bf16")       ? "bf16"
                                                                : "fp16");
  if (training.precision == Precision::Fp32 && !args.fp32_where.empty())
    state(builder.job, "precision", format, args.fp32_where);
  else if (training.precision == Precision::Fp32)
    assume(builder.job, "precision", format, "Megatron-LM");
  else if (where.empty())  // a tool's own, which no file states
    assume(builder.job, "precision", format, fmt::format("default of {}", args.format));
  else
    state(builder.job, "precision", format, where);
  if (!args.has("first-last-layers-bf16")) return;
  training.bf16_layers = {layers_at(builder, "num-layers-at-start-in-bf16"),
                          layers_at(builder, "num-layers-at-end-in-bf16")};
  state(builder.job, "bf16_layers", bf16_layers_text(training.bf16_layers), args.where("first-last-layers-bf16"));
}

}  // namespace plan::megatron
