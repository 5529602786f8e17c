// FLOPs of a token, down to the shapes of the weights that it meets. Tested by tests/cli/explain_test.cpp.
#include "formulas/flops.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/explain/parts.hpp"
#include "formulas/layer_rows.hpp"

namespace plan {
namespace {

constexpr const char* kModel = "model";
constexpr const char* kSource = "plan list formulas, group flops";

ExplainedSymbol given(std::string symbol, std::int64_t value, std::string what) {
  return {std::move(symbol), static_cast<double>(value), std::move(what), kModel};
}
ExplainedSymbol hidden(const Model& model) { return given("h", model.hidden, "hidden width"); }

Explanation named(std::string name, Explanation e) {
  e.name = std::move(name);
  return e;
}

/// What the products of one part of a layer are called, and its letter.
struct PartWords {
  LayerPart part;
  const char* name;
  const char* title;
};
constexpr PartWords kParts[] = {{LayerPart::Mixer, "m", "FLOPs of the mixer's projections"},
                                {LayerPart::LatentUp, "u", "FLOPs of the mixer's up-projections"},
                                {LayerPart::Dense, "d", "FLOPs of the dense FFN"},
                                {LayerPart::Experts, "e", "FLOPs of a token's routed experts"},
                                {LayerPart::Shared, "s", "FLOPs of shared experts"},
                                {LayerPart::Router, "r", "FLOPs of the router"}};

/// Two FLOPs a weight for each token: multiply and add.
Explanation product_explanation(const Model& model, const Layer& layer, const PartWords& words) {
  ExplainedSum sum;
  Flops value{};
  int number = 0;
  for (const Weight& weight : layer_weights(model, layer)) {
    if (!weight.matrix() || weight.part != words.part) continue;
    const std::string n = fmt::format("{}", ++number);
    sum.give(given("r_" + n, weight.out + weight.kv_out, fmt::format("{}: rows", weight.what)));
    sum.add("r_" + n + "*", given("c_" + n, weight.in, "its columns"));
    value += product_flops(weight, layer);
  }
  const bool experts = words.part == LayerPart::Experts;
  if (experts && number > 0) sum.give(given("k", layer.moe.top_k, "experts of a token"));
  return named(words.name, explained(words.title, (experts ? "2*k*(" : "2*(") + sum.equation + ")", value.value, "",
                                     std::move(sum.symbols), kSource));
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
  for (const PartWords& words : kParts) add(product_explanation(model, layer, words));
  const bool scan = core_of(layer) == MixerCore::Scan;
  add(named("a", explained(scan ? "FLOPs of the scan" : "FLOPs of attention over what the mask leaves",
                           traced_core_flops(layer, seq, mask), "", kSource)));
  return explained(fmt::format("forward FLOPs of one layer of kind {}", kind), sum.equation, flops.total().value, "",
                   std::move(sum.symbols), kSource, std::move(sum.parts));
}

/// Output projection, of the prediction modules too, and what joins their inputs.
Explanation head_flops(const Model& model, const ModelFlops& flops) {
  std::string equation = "2*h*V";
  std::vector<ExplainedSymbol> symbols = {hidden(model), given("V", model.vocab, "vocabulary")};
  if (model.mtp.depth > 0) {
    equation = "2*h*V*(1 + D) + 4*D*h*h";
    symbols.push_back(given("D", model.mtp.runs(), "prediction modules, every pass of theirs"));
  }
  return named(
      "H", explained("FLOPs of the output projections", equation,
                     (flops.head + flops.mtp_heads + flops.mtp_projections).value, "", std::move(symbols), kSource));
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
        model.mtp.runs() * std::count(model.mtp.kinds.begin(), model.mtp.kinds.end(), static_cast<int>(kind));
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
  const Flops value = model_flops_per_token(model, static_cast<double>(training.seq), convention, options);
  std::string equation = "3*(" + sum.equation + ")";
  if (training.adapters()) {
    equation += " - G + 3*P";
    sum.give({"G", flops.linear().value, "weight gradients that frozen weights do not have", kModel});
    sum.give({"P", adapter_flops(model, training).value, "forward FLOPs of the adapters", "lora_rank"});
  }
  return named("F", explained("FLOPs of a token, forward and backward", equation, value.value, "",
                              std::move(sum.symbols), "Narayanan et al. 2021, arXiv:2104.04473", std::move(sum.parts)));
}

Explanation explain_hardware_flops(const Plan& plan) {
  const Layout& layout = plan.best.layout;
  const CostModel costs(plan.problem, split_of(layout));
  Evaluator evaluator(plan.problem, costs, layout);
  const double repeated = evaluator.recomputed_per_token(layout).value;
  Explanation useful = named("u", explain_flops(plan, Mask::Causal));
  const double whole = useful.value + repeated;
  ExplainedSum sum;
  sum.add("", "forward and backward", std::move(useful));
  sum.add({"r", repeated, "forward FLOPs of the recomputed modules, average of all layers", "layout"});
  return named("F", explained("FLOPs of a token, recomputed ones counted too", sum.equation, whole, "",
                              std::move(sum.symbols), {}, std::move(sum.parts)));
}

}  // namespace plan
