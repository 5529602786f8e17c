// Forward FLOPs of a decoder per token (plan-formulas(7) B1): two for every weight of a matrix product that a token
// meets, and what attention or a scan does with no weights at all.
// Tested by tests/formulas/flops_test.cpp against published counts.
#include "formulas/flops.hpp"

#include <vector>

#include "formulas/layer_rows.hpp"

namespace plan {
namespace {

constexpr double real(std::int64_t n) { return static_cast<double>(n); }

/// Where the FLOPs of a weight's matrix product are counted.
Flops& flops_of(LayerFlops& flops, LayerPart part) {
  switch (part) {
    case LayerPart::Mixer:
    case LayerPart::LatentUp: return flops.mixer;
    case LayerPart::Dense: return flops.dense;
    case LayerPart::Experts: return flops.experts;
    case LayerPart::Shared: return flops.shared;
    case LayerPart::Router: return flops.router;
  }
  return flops.mixer;
}

}  // namespace

Flops product_flops(const Weight& weight, const Layer& layer) {
  if (!weight.matrix()) return {};
  return Flops(2 * real(weight.numel()) * (weight.expert() ? real(layer.moe.top_k) : 1.0));
}

LayerFlops layer_flops(const Model& model, const Layer& layer, double seq, Mask mask) {
  LayerFlops flops;
  for (const Weight& weight : layer_weights(model, layer)) {
    const Flops product = product_flops(weight, layer);
    flops_of(flops, weight.part) += product;
    if (weight.part == LayerPart::LatentUp) flops.latent_up += product;
  }
  flops.core = mixer_row(layer.mixer).core_flops(layer, seq, mask);
  return flops;
}

Traced traced_core_flops(const Layer& layer, double seq, Mask mask) {
  return mixer_row(layer.mixer).traced_core_flops(layer, seq, mask);
}

ModelFlops model_flops(const Model& model, double seq, Mask mask) {
  std::vector<LayerFlops> kinds;
  kinds.reserve(model.kinds.size());
  for (const Layer& kind : model.kinds) kinds.push_back(layer_flops(model, kind, seq, mask));
  ModelFlops flops;
  for (const int kind : model.layers) flops.layers += kinds[static_cast<std::size_t>(kind)];
  const double hidden = real(model.hidden);
  flops.head = Flops(2 * hidden * real(model.vocab));
  for (int run = 0; run < model.mtp.runs(); ++run) {
    for (const int kind : model.mtp.kinds) flops.mtp_layers += kinds[static_cast<std::size_t>(kind)];
    flops.mtp_projections += Flops(4 * hidden * hidden);
    flops.mtp_heads += flops.head;
  }
  return flops;
}

Flops recompute_flops(const LayerFlops& layer, RecomputeKind kind, std::uint16_t modules, Precision precision) {
  if (kind == RecomputeKind::None) return {};
  if (kind == RecomputeKind::Full) return layer.total();
  if (modules & kRecomputeOps)
    return ops_keep_products(precision) ? kOpsRebuilt * layer.total() : layer.total() - layer.core;
  Flops extra{};
  if (modules & kRecomputeCoreAttention) extra += layer.core;
  if (modules & kRecomputeMlp) extra += layer.dense;
  if (modules & kRecomputeLatentUp) extra += layer.latent_up;
  if (modules & kRecomputeMoe)
    extra += layer.router + layer.experts + layer.shared;
  else if (modules & kRecomputeSharedExperts)
    extra += layer.shared;
  return extra;
}

}  // namespace plan
