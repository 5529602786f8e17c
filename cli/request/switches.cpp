// Switches of a framework's software, from words to the stack. Tested by tests/cli/resolve_test.cpp.
#include "cli/request/switches.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/terminal/numbers.hpp"

namespace plan {
namespace {

Error needs_megatron(const char* what) { return {"conflicting_flags", what, {}, {"add `--framework megatron`"}}; }

/// What a graph needs of the model.
Errors graphs_without_ground(const CudaGraphs& graphs, const Model& model) {
  const auto has = [&](auto test) { return std::any_of(model.kinds.begin(), model.kinds.end(), test); };
  Errors errors;
  const auto lacks = [&](std::uint16_t scope, const char* what) {
    if (graphs.scopes & scope)
      errors.push_back(
          {"conflicting_flags", fmt::format("{} has no {}, which `--cuda-graphs` names", model.name, what), {}, {}});
  };
  if (!has([](const Layer& layer) { return layer.mixer == Mixer::Attention || layer.mixer == Mixer::Latent; }))
    lacks(kGraphAttention, "attention");
  if (!has([](const Layer& layer) { return layer.mixer == Mixer::Mamba2; })) lacks(kGraphMamba, "Mamba layers");
  if (!has([](const Layer& layer) { return layer.ffn == Ffn::Dense; })) lacks(kGraphMlp, "dense FFN");
  if (!model.moe()) lacks(kGraphRouter | kGraphExperts, "experts");
  if (model.moe() && (graphs.iteration || (graphs.scopes & kGraphExperts)))
    errors.push_back({"conflicting_flags",
                      "a graph's shapes are fixed, and how many tokens reach an expert is not",
                      {},
                      {"write `--cuda-graphs attn+moe_router+moe_preprocess`"}});
  return errors;
}

}  // namespace

Errors take_state_formats(const StateFormats& formats, Problem& problem) {
  if (problem.framework != Framework::Megatron)
    return {needs_megatron("of the frameworks Megatron alone lets its states be narrower than fp32")};
  formats.apply(problem.training);
  return {};
}

Errors take_cuda_graphs(const CudaGraphs& graphs, Problem& problem) {
  if (graphs != CudaGraphs{} && problem.framework != Framework::Megatron)
    return {needs_megatron("CUDA graphs of parts of a step are known of Megatron alone")};
  problem.training.stack.cuda_graphs = graphs.iteration;
  problem.training.stack.graph_scopes = graphs.scopes;
  return problem.model.kinds.empty() ? Errors{} : graphs_without_ground(graphs, problem.model);
}

Result<double> read_imbalance(std::string_view text) {
  constexpr double kMost = 1000;  // all tokens to one rank of as many
  Result<double> factor = read_amount("--imbalance", text, kMost);
  if (factor && *factor < 1)
    return fail({"out_of_range",
                 fmt::format("the busiest rank has at least the mean, and `--imbalance` says {}", text),
                 {},
                 {"1 is forced balance; routers that choose freely reach about 1.3"}});
  return factor;
}

Errors take_imbalance(double factor, Problem& problem) {
  if (factor > 1 && !problem.model.kinds.empty() && !problem.model.moe())
    return {{"conflicting_flags",
             fmt::format("{} has no experts, over which `--imbalance` spreads tokens", problem.model.name),
             {},
             {}}};
  problem.training.stack.routing_imbalance = factor;
  return {};
}

}  // namespace plan
