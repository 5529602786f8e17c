// FLOPs of a token, down to the shapes of the weights that it meets. Tested by tests/cli/explain_test.cpp.
#include "formulas/flops.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/explain/parts.hpp"
#include "formulas/transient.hpp"

namespace plan {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kSource = "plan list formulas, group flops";

ExplainedSymbol given(const char* symbol, std::int64_t value, const char* what) {
  return {symbol, static_cast<double>(value), what, kModel};
}
ExplainedSymbol hidden(const Model& model) { return given("h", model.hidden, "hidden width"); }
ExplainedSymbol matrices(bool gated) {
  return given("M", gated ? 3 : 2, "matrices: gate, up and down, or up and down");
}

Explanation named(std::string name, Explanation e) {
  e.name = std::move(name);
  return e;
}

/// Two FLOPs a weight for each token: multiply and add.
Explanation mixer_flops(const Model& model, const Layer& layer, double value) {
  Layer mixer = layer;
  mixer.ffn = Ffn::None;
  const LinearShapes shapes = linear_shapes(model, mixer, Layout{});
  ExplainedSum sum;
  for (int i = 0; i < shapes.size; ++i) {
    const LinearShape& shape = shapes.shapes[static_cast<std::size_t>(i)];
    const std::string n = fmt::format("{}", i + 1);
    sum.give({"r_" + n, shape.rows, "rows of a weight", kModel});
    sum.add("r_" + n + "*", {"c_" + n, shape.columns, "its columns", kModel});
  }
  const double rest = value / 2 - shapes.numel();
  if (std::fabs(rest) > 0.5) sum.add({"o", rest, "weights of the indexer", kModel});
  return named("m", explained("FLOPs of the mixer's projections", "2*(" + sum.equation + ")", value, "",
                              std::move(sum.symbols), kSource));
}

Explanation dense_flops(const Model& model, const DenseShape& shape, double value) {
  return named("d",
               explained("FLOPs of the dense FFN", "2*M*h*f", value, "",
                         {matrices(shape.gated), hidden(model), given("f", shape.width, "width of the FFN")}, kSource));
}

Explanation expert_flops(const Model& model, const MoeShape& shape, double value) {
  const std::int64_t width = shape.latent > 0 ? shape.latent : model.hidden;
  return named("e", explained("FLOPs of a token's routed experts", "2*M*k*w*f", value, "",
                              {matrices(shape.gated), given("k", shape.top_k, "experts of a token"),
                               given("w", width, "width that experts see"),
                               given("f", shape.expert_width, "width of an expert")},
                              kSource));
}

/// Experts that every token meets, the gate on them, and the projections into and out of a latent space.
Explanation shared_flops(const Model& model, const MoeShape& shape, double value) {
  std::string equation = "2*M*h*f";
  std::vector<ExplainedSymbol> symbols = {matrices(shape.gated), hidden(model),
                                          given("f", shape.shared_width, "width of shared experts")};
  if (shape.latent > 0) {
    equation += " + 4*h*w";
    symbols.push_back(given("w", shape.latent, "width that experts see"));
  }
  if (shape.shared_gate) equation += " + 2*h";
  return named("s", explained("FLOPs of shared experts", equation, value, "", std::move(symbols), kSource));
}

Explanation router_flops(const Model& model, const MoeShape& shape, double value) {
  return named("r", explained("FLOPs of the router", "2*h*E", value, "",
                              {hidden(model), given("E", shape.experts, "experts")}, kSource));
}

/// Scores and weighted values of the keys that the mask leaves, or a scan's states.
Explanation core_flops(const Layer& layer, double seq, Mask mask, double value) {
  const char* title = "FLOPs of attention over what the mask leaves";
  const auto keys = [&](const char* symbol, std::int64_t window) {
    return ExplainedSymbol{symbol, attended_tokens(seq, static_cast<double>(window), mask),
                           "keys that an average query sees: half the sequence under the causal mask", "seq"};
  };
  switch (layer.mixer) {
    case Mixer::None: break;
    case Mixer::Attention:
      return explained(title, "4*H*d*x", value, "",
                       {given("H", layer.attention.heads, "attention heads"),
                        given("d", layer.attention.head_dim, "width of a head"), keys("x", layer.attention.window)},
                       kSource);
    case Mixer::Latent: {
      const LatentShape& shape = layer.latent;
      std::string equation = "2*H*(d_k + d_v)*x";
      std::vector<ExplainedSymbol> symbols = {given("H", shape.heads, "attention heads"),
                                              given("d_k", shape.qk_dim(), "width of queries and keys of a head"),
                                              given("d_v", shape.value_dim, "width of a head's values"),
                                              keys("x", shape.index_top_k)};
      if (shape.index_heads > 0) {
        equation += " + 2*H_i*d_i*y";
        symbols.push_back(given("H_i", shape.index_heads, "heads of the indexer"));
        symbols.push_back(given("d_i", shape.index_dim, "width of each"));
        symbols.push_back(keys("y", 0));
      }
      return explained(title, equation, value, "", std::move(symbols), kSource);
    }
    case Mixer::Mamba2:
      return explained("FLOPs of the chunked scan", "7*H*d*n", value, "",
                       {given("H", layer.mamba.heads, "heads"), given("d", layer.mamba.head_dim, "width of a head"),
                        given("n", layer.mamba.state, "states of a channel")},
                       kSource);
    case Mixer::DeltaNet: {
      const DeltaNetShape& shape = layer.delta;
      return explained("FLOPs of convolution and chunked scan", "2*(c*(2*k + v) + 4*v*d)", value, "",
                       {given("c", shape.conv, "taps of the convolution"),
                        given("k", shape.key_heads * shape.key_dim, "width of all keys"),
                        given("v", shape.value_heads * shape.value_dim, "width of all values"),
                        given("d", shape.value_dim, "width of a head's values")},
                       kSource);
    }
  }
  return {};
}

/// Forward FLOPs of one layer for one token.
Explanation layer_flops_of(const Model& model, int kind, double seq, Mask mask) {
  const Layer& layer = model.kinds[static_cast<std::size_t>(kind)];
  const LayerFlops flops = layer_flops(model, layer, seq, mask);
  ExplainedSum sum;
  const auto add = [&](Explanation part) {
    const std::string title = part.title;
    if (part.value != 0) sum.add("", title, std::move(part));
  };
  add(mixer_flops(model, layer, flops.mixer));
  add(dense_flops(model, layer.dense, flops.dense));
  add(expert_flops(model, layer.moe, flops.experts));
  add(shared_flops(model, layer.moe, flops.shared));
  add(router_flops(model, layer.moe, flops.router));
  add(named("a", core_flops(layer, seq, mask, flops.core)));
  return explained(fmt::format("forward FLOPs of one layer of kind {}", kind), sum.equation, flops.total(), "",
                   std::move(sum.symbols), kSource, std::move(sum.parts));
}

/// Output projection, of the prediction modules too, and what joins their inputs.
Explanation head_flops(const Model& model, const ModelFlops& flops) {
  std::string equation = "2*h*V";
  std::vector<ExplainedSymbol> symbols = {hidden(model), given("V", model.vocab, "vocabulary")};
  if (model.mtp.depth > 0) {
    equation = "2*h*V*(1 + D) + 4*D*h*h";
    symbols.push_back(given("D", model.mtp.depth, "prediction modules"));
  }
  return named("H", explained("FLOPs of the output projections", equation,
                              flops.head + flops.mtp_heads + flops.mtp_projections, "", std::move(symbols), kSource));
}

}  // namespace

Explanation explain_flops(const Plan& plan, Mask mask) {
  const Model& model = plan.problem.model;
  const Training& training = plan.problem.training;
  const double seq = training.packed_length > 0 ? training.packed_length : static_cast<double>(training.seq);
  const ModelFlops flops = model_flops(model, seq, mask);
  ExplainedSum sum;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto layers =
        std::count(model.layers.begin(), model.layers.end(), static_cast<int>(kind)) +
        model.mtp.depth * std::count(model.mtp.kinds.begin(), model.mtp.kinds.end(), static_cast<int>(kind));
    if (layers == 0) continue;
    Explanation layer = named(fmt::format("f_{}", kind), layer_flops_of(model, static_cast<int>(kind), seq, mask));
    sum.give({fmt::format("l_{}", kind), static_cast<double>(layers), "layers of this kind, prediction modules' too",
              kModel});
    const std::string title = layer.title;
    sum.add(fmt::format("l_{}*", kind), title, std::move(layer));
  }
  Explanation head = head_flops(model, flops);
  const std::string title = head.title;
  sum.add("", title, std::move(head));
  const FlopsOptions options = flops_options(training, plan.best.layout.tp);
  const FlopsConvention convention = mask == Mask::Causal ? FlopsConvention::ModelCausal : FlopsConvention::ModelFull;
  const double value = model_flops_per_token(model, static_cast<double>(training.seq), convention, options);
  std::string equation = "3*(" + sum.equation + ")";
  if (training.adapters()) {
    equation += " - G + 3*P";
    sum.give({"G", flops.linear(), "weight gradients that frozen weights do not have", kModel});
    sum.give({"P", adapter_flops(model, training.lora), "forward FLOPs of the adapters", "lora_rank"});
  }
  return named("F", explained("FLOPs of a token, forward and backward", equation, value, "", std::move(sum.symbols),
                              "Narayanan et al. 2021, arXiv:2104.04473", std::move(sum.parts)));
}

Explanation explain_hardware_flops(const Plan& plan, double value) {
  Explanation useful = named("u", explain_flops(plan, Mask::Causal));
  const double repeated = value - useful.value;
  Explanation out = explained("FLOPs of a token, recomputed ones counted too", repeated != 0 ? "u + r" : "u", value, "",
                              {{"u", useful.value, "forward and backward", {}}});
  if (repeated != 0)
    out.symbols.push_back({"r", repeated, "forward FLOPs of the recomputed modules, average of all layers", "layout"});
  out.parts.push_back(std::move(useful));
  return named("F", std::move(out));
}

}  // namespace plan
