// Layers that keep 16 bits in a training that multiplies in fewer. Assumption: a layer is in one format altogether, and
// those that stay wide lie at the ends of the model, as frameworks let one say it. Source: Megatron core,
// fp8_utils.is_first_last_bf16_layer and fp4_utils.get_fp4_context (which layers), torchtitan's nvfp4_bf16_tail_fqns.
// Tested by tests/formulas/bf16_layers_test.cpp.
#include "formulas/bf16_layers.hpp"

#include <algorithm>

#include "formulas/layer_kinds.hpp"

namespace plan {
namespace {

/// Kinds that no layer is of any more are dropped; the others keep their order.
void drop_unused(Model& model) {
  std::vector<Layer> kinds;
  std::vector<int> moved(model.kinds.size(), -1);
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto is_it = [&](int of) { return of == static_cast<int>(kind); };
    if (std::none_of(model.layers.begin(), model.layers.end(), is_it) &&
        std::none_of(model.mtp.kinds.begin(), model.mtp.kinds.end(), is_it))
      continue;
    moved[kind] = static_cast<int>(kinds.size());
    kinds.push_back(model.kinds[kind]);
  }
  for (int& kind : model.layers) kind = moved[static_cast<std::size_t>(kind)];
  for (int& kind : model.mtp.kinds) kind = moved[static_cast<std::size_t>(kind)];
  model.kinds = std::move(kinds);
}

}  // namespace

Precision precision_of(const Layer& layer, const Training& training) {
  return layer.in_bf16 && is_narrow(training.precision) ? Precision::Bf16 : training.precision;
}

bool stays_in_bf16(const Bf16Layers& ends, int layer, int depth) {
  return layer < ends.first || layer >= depth - ends.last;
}

Model with_bf16_layers(Model model, const Bf16Layers& ends) {
  const bool already = std::any_of(model.kinds.begin(), model.kinds.end(), [](const Layer& l) { return l.in_bf16; });
  if (!ends.any() && !already) return model;
  const int depth = model.depth();
  for (int i = 0; i < depth; ++i) {
    Layer layer = model.kinds[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(i)])];
    layer.in_bf16 = stays_in_bf16(ends, i, depth);
    model.layers[static_cast<std::size_t>(i)] = kind_of(model, layer);
  }
  drop_unused(model);
  return model;
}

}  // namespace plan
