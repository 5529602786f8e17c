// A layer that mixes no tokens, and one without a feed-forward: Nemotron-H has a sub-block a layer.
#include "formulas/layer_rows.hpp"
#include "formulas/layer_trail.hpp"

namespace plan {
namespace {

void no_weights(LayerWeights&, std::int64_t, const Layer&) {}

template <class V>
void keep_nothing(Keeper<V>&, const LayerSizes<V>&) {}

template <class V>
V no_flops(const Layer&, double, Mask) {
  return 0.0;
}

}  // namespace

constinit const MixerRow kNoMixer{
    .mixer = Mixer::None,
    .part = {.put = [](Layer& to, const Layer&) { to.mixer = Mixer::None; },
             .weights = no_weights,
             .keep = keep_nothing<double>,
             .traced_keep = keep_nothing<Traced>},
    .core = MixerCore::None,
    .heads = [](const Layer&) { return std::array<std::int64_t, 2>{}; },
    .core_flops = counted<no_flops<double>>,
    .traced_core_flops = no_flops<Traced>,
    .compute = [](LayerOperators&, const LayerOnRank&) {},
};

constinit const FfnRow kNoFfn{.ffn = Ffn::None,
                              .part = {.put = [](Layer& to, const Layer&) { to.ffn = Ffn::None; },
                                       .weights = no_weights,
                                       .keep = keep_nothing<double>,
                                       .traced_keep = keep_nothing<Traced>}};

}  // namespace plan
