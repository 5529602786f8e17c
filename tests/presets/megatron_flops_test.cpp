// FLOPs of every preset that Megatron-LM trains against Megatron-LM's own count, num_floating_point_operations() of
// core 0.20 (tests/published/megatron_flops.csv, made by tests/tools/megatron_flops.py). It shares no code with ours
// and reads the model from a launch file. What it counts otherwise is taken out first, by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "formulas/flops.hpp"
#include "presets/store.hpp"

using namespace plan;

namespace {

/// As Megatron-LM counts it: every query sees all keys before it, whatever windows and indexers leave of them.
Model without_sparsity(Model model) {
  for (Layer& kind : model.kinds) {
    kind.attention.window = 0;
    kind.latent.index_heads = kind.latent.index_dim = kind.latent.index_top_k = 0;
  }
  return model;
}

/// Forward FLOPs of a token in routers, which Megatron-LM leaves out.
double router_flops(const Model& model) {
  double flops = 0;
  const auto add = [&](int kind, int times) {
    const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
    if (layer.ffn == Ffn::Moe)
      flops += 2.0 * times * static_cast<double>(model.hidden) * static_cast<double>(layer.moe.experts);
  };
  for (const int kind : model.layers) add(kind, 1);
  for (const int kind : model.mtp.kinds) add(kind, model.mtp.runs());
  return flops;
}

bool any_kind(const Model& model, bool (*is)(const Layer&)) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), is);
}

}  // namespace

TEST_CASE("FLOPs of a token are Megatron-LM's own count") {
  std::ifstream rows(std::string(PLAN_SOURCE_DIR) + "/tests/published/megatron_flops.csv");
  std::string line;
  REQUIRE(std::getline(rows, line));
  CHECK(line == "model,seq,flops_per_token");
  int compared = 0, scans = 0;
  double worst = 0;
  while (std::getline(rows, line)) {
    CAPTURE(line);
    std::istringstream cells(line);
    std::string name, seq, flops;
    REQUIRE(std::getline(cells, name, ','));
    REQUIRE(std::getline(cells, seq, ','));
    REQUIRE(std::getline(cells, flops));
    const Result<Found<Model>> found = load_model(name, StoreOptions{.files = false});
    REQUIRE(found);
    const Model model = without_sparsity(found->value);
    // Its Mamba-2 is twice as wide as the model inside, whatever heads there are: a mistake of its own.
    const std::int64_t hidden = model.hidden;
    const bool odd = std::any_of(model.kinds.begin(), model.kinds.end(), [hidden](const Layer& l) {
      return l.mixer == Mixer::Mamba2 && l.mamba.heads * l.mamba.head_dim != 2 * hidden;
    });
    if (odd) continue;
    const double ours = 3 * (model_flops(model, std::stod(seq)).total().value - router_flops(model));
    const double off = std::abs(ours / std::stod(flops) - 1);
    // The two count the steps of a scan in other ways, of which little depends.
    const bool scanning =
        any_kind(model, [](const Layer& l) { return l.mixer == Mixer::Mamba2 || l.mixer == Mixer::DeltaNet; });
    CHECK(off < (scanning ? 0.02 : 1e-4));
    ++(scanning ? scans : compared);
    if (!scanning) worst = std::max(worst, off);
  }
  MESSAGE(compared << " models within " << worst << ", and " << scans << " that scan");
  CHECK(compared > 190);
  CHECK(scans >= 5);
}
