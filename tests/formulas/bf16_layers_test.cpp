// Oracle: each layer of random models is looked at by itself: which are in bf16 follows from their place alone, and
// nothing else of them changes.
#include "formulas/bf16_layers.hpp"

#include <doctest/doctest.h>

#include <random>

#include "formulas/activation.hpp"
#include "formulas/flops.hpp"
#include "formulas/parameters.hpp"
#include "tests/formulas/models.hpp"

using namespace plan;
using doctest::Approx;

namespace {

Layer layer_at(const Model& model, int i) {
  return model.kinds[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(i)])];
}

Model mixed_model(std::mt19937& random) {
  Model model = random() % 2 == 0 ? fixture::llama3_8b() : fixture::deepseek_v3();
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (random() % 3 == 0) model.layers[i] = static_cast<int>(random() % model.kinds.size());
  return model;
}

}  // namespace

TEST_CASE("layers at the ends are in bf16, those between are not, and none has another shape") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Model model = mixed_model(random);
    const int depth = model.depth();
    const auto some = [&] { return static_cast<int>(random() % static_cast<unsigned>(depth / 2)); };
    const Bf16Layers ends{.first = some(), .last = some()};
    const Model changed = with_bf16_layers(model, ends);
    REQUIRE(changed.depth() == depth);
    for (int i = 0; i < depth; ++i) {
      CHECK(layer_at(changed, i).in_bf16 == (i < ends.first || i >= depth - ends.last));
      CHECK(same_shape(layer_at(changed, i), layer_at(model, i)));
    }
    for (std::size_t i = 0; i < model.mtp.kinds.size(); ++i) {
      const Layer& predicted = changed.kinds[static_cast<std::size_t>(changed.mtp.kinds[i])];
      CHECK(predicted == model.kinds[static_cast<std::size_t>(model.mtp.kinds[i])]);
    }
    CHECK(model_parameters(changed).total == model_parameters(model).total);
    CHECK(with_bf16_layers(changed, ends) == changed);
    const Model back = with_bf16_layers(changed, {});
    for (int i = 0; i < depth; ++i) CHECK(layer_at(back, i) == layer_at(model, i));
  }
}

TEST_CASE("a layer in bf16 keeps what it keeps in a bf16 training, in every format") {
  std::mt19937 random(8);
  for (int round = 0; round < 50; ++round) {
    const Model model = mixed_model(random);
    Layer layer = layer_at(model, static_cast<int>(random() % model.layers.size()));
    Training wide;
    wide.precision = Precision::Bf16;
    const LayerLedger in_bf16 = layer_ledger(model, layer, wide, {});
    for (const Precision precision : {Precision::Fp8Delayed, Precision::Fp8Tensorwise, Precision::Fp8Blockwise,
                                      Precision::Mxfp8, Precision::Nvfp4, Precision::Fp16}) {
      Training training = wide;
      training.precision = precision;
      const LayerLedger narrow = layer_ledger(model, layer, training, {});
      layer.in_bf16 = true;
      CHECK(precision_of(layer, training) == (precision == Precision::Fp16 ? Precision::Fp16 : Precision::Bf16));
      CHECK(layer_ledger(model, layer, training, {}) == in_bf16);
      CHECK(kept_ops(model, layer, in_bf16, training, {}) == kept_ops(model, layer, in_bf16, wide, {}));
      layer.in_bf16 = false;
      if (is_narrow(precision)) CHECK(narrow.total() < in_bf16.total());
    }
  }
}

TEST_CASE("torchtitan's op recompute keeps no product in NVFP4") {
  const Model model = fixture::llama3_8b();
  Training training;
  training.precision = Precision::Nvfp4;
  const LayerLedger ledger = layer_ledger(model, model.kinds[0], training, {});
  // input, attention output and statistics, and what it hands on
  CHECK(kept_ops(model, model.kinds[0], ledger, training, {}).value == 4096 * (2.0 * (2 * 4096 + 4096) + 4 * 32));
  Layout layout;
  layout.tp = 8, layout.sequence_parallel = true;
  const LayerLedger part = layer_ledger(model, model.kinds[0], training, layout);
  // and what the ranks summed behind the attention, each a share of the tokens
  CHECK(kept_ops(model, model.kinds[0], part, training, layout).value == 4096 * (2.0 * (4 * 4096) + 4 * 32) / 8);

  const LayerFlops flops = layer_flops(model, model.kinds[0], 4096);
  const auto again = [&](Precision precision) {
    return recompute_flops(flops, RecomputeKind::Selective, kRecomputeOps, precision).value;
  };
  CHECK(again(Precision::Nvfp4) == Approx((flops.total() - flops.core).value));
  CHECK(again(Precision::Mxfp8) == again(Precision::Bf16));
}
