// Switches of a framework's software, from words to the stack. Tested by tests/cli/resolve_test.cpp.
#include "cli/request/sources/switches.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/terminal/bf16_layers.hpp"
#include "cli/terminal/numbers.hpp"
#include "formulas/bf16_layers.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/names.hpp"
#include "formulas/overlap.hpp"
#include "planner/answer/switch_words.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/words.hpp"
#include "planner/search/switches.hpp"

namespace plan {
namespace {

/// The help of a flag that has nothing to apply to.
std::vector<std::string> without(const char* flag) { return {fmt::format("leave `--{}` out", flag)}; }

/// The help of --bf16-layers among layers that are in bf16 already: a narrow format that the GPU has.
std::vector<std::string> narrow_or_without(const Gpu& gpu) {
  for (const Precision narrow : {Precision::Mxfp8, Precision::Fp8Tensorwise})
    if (multiplies(gpu, narrow))
      return {fmt::format("write `--precision {}`, or leave `--bf16-layers` out", name(narrow))};
  return without("bf16-layers");
}

/// What a graph needs of the model.
Errors graphs_without_ground(const CudaGraphs& graphs, const Model& model) {
  const auto has = [&](auto test) { return std::any_of(model.kinds.begin(), model.kinds.end(), test); };
  Errors errors;
  CudaGraphs left = graphs;
  const auto lacks = [&](int scope, const char* what) {
    if ((graphs.scopes & scope) == 0) return;
    errors.push_back(
        {"conflicting_flags", fmt::format("{} has no {}, which `--cuda-graphs` names", model.name, what), {}, {}});
    left.scopes = static_cast<std::uint16_t>(left.scopes & ~scope);
  };
  const auto mixes = [&](std::uint16_t scope) {
    return has([&](const Layer& layer) { return mixer_row(layer.mixer).graph == scope; });
  };
  if (!mixes(kGraphAttention)) lacks(kGraphAttention, "attention");
  if (!mixes(kGraphMamba)) lacks(kGraphMamba, "Mamba layers");
  if (!has([](const Layer& layer) { return layer.ffn == Ffn::Dense; })) lacks(kGraphMlp, "dense FFN");
  if (!model.moe()) lacks(kGraphRouter | kGraphPreprocess | kGraphExperts, "experts");
  for (Error& error : errors)
    error.help = left == CudaGraphs{} ? without("cuda-graphs")
                                      : std::vector{fmt::format("write `--cuda-graphs {}`", cuda_graphs_text(left))};
  if (model.moe() && (graphs.iteration || (graphs.scopes & kGraphExperts)))
    errors.push_back({"conflicting_flags",
                      "a graph's shapes are fixed, and how many tokens reach an expert is not",
                      {},
                      {"write `--cuda-graphs attn+moe_router+moe_preprocess`"}});
  return errors;
}

}  // namespace

Errors offload_without_ground(const Problem& problem) {
  const Offload& offload = problem.training.offload;
  const int depth = problem.model.depth();
  Errors errors;
  if (depth > 0 && offload.layers > depth)
    errors.push_back(
        {"bad_value",
         fmt::format("`--offload layers={}` is more layers than {} has: {}", offload.layers, problem.model.name, depth),
         {},
         {fmt::format("write `--offload layers={}` or less", depth - 1)}});
  if (offload.activations() && !framework_row(problem.framework).offloads_activations)
    errors.push_back(needs_framework(&FrameworkRow::offloads_activations,
                                     "of the frameworks {} alone offloads activations", problem.framework));
  return errors;
}

Errors take_state_formats(const StateFormats& formats, Problem& problem) {
  if (formats.kept == 1 && problem.framework != Framework::None)
    return {{"unsupported_framework",
             "no framework that plan writes launch files for keeps weights and what SwiGLU reads in another format; "
             "DeepSeek's HAI-LLM does",
             {},
             {"add `--framework none` for an estimate"}}};
  if (formats.kept == 1 && !is_fp8(problem.training.precision))
    return {{"conflicting_flags",
             fmt::format("`--state-formats kept=fp8` keeps what products in fp8 read, and these are in {}",
                         name(problem.training.precision)),
             {},
             {"add `--precision fp8-blockwise`"}}};
  if (!framework_row(problem.framework).narrow_states)
    return {needs_framework(&FrameworkRow::narrow_states,
                            "of the frameworks {} alone lets its states be narrower than fp32", problem.framework)};
  formats.apply(problem.training);
  return {};
}

Errors take_cuda_graphs(const CudaGraphs& graphs, Problem& problem) {
  if (graphs != CudaGraphs{} && !framework_row(problem.framework).graphs_of_parts)
    return {needs_framework(&FrameworkRow::graphs_of_parts, "CUDA graphs of parts of a step are known of {} alone",
                            problem.framework)};
  problem.training.stack.cuda_graphs = graphs.iteration;
  problem.training.stack.graph_scopes = graphs.scopes;
  return problem.model.kinds.empty() ? Errors{} : graphs_without_ground(graphs, problem.model);
}

Errors take_overlap(const Overlap& overlap, Problem& problem) {
  const FrameworkRow& row = framework_row(problem.framework);
  if (row.overlaps == 0)
    return {needs_framework(&FrameworkRow::overlaps, "of the frameworks {} alone have words for what overlaps",
                            problem.framework)};
  Errors errors;
  if (const unsigned fixed = overlap.parts & ~unsigned{row.overlaps}; fixed != 0)
    errors.push_back({"conflicting_flags",
                      fmt::format("{} has no word that lets `{}` overlap", row.title, overlap_words(fixed)),
                      {},
                      {fmt::format("name of these: {}", overlap_words(row.overlaps))}});
  if ((overlap.parts & kOverlapParams) != 0 && (overlap.parts & kOverlapGrads) == 0)
    errors.push_back({"conflicting_flags",
                      "parameters are gathered beside compute only where gradients are reduced so, too",
                      {},
                      {fmt::format("write `--overlap {}`", overlap_words(overlap.parts | kOverlapGrads))}});
  if ((overlap.parts & kOverlapExperts) != 0 && !problem.model.kinds.empty() && !problem.model.moe())
    errors.push_back({"conflicting_flags",
                      fmt::format("{} has no experts, whose messages `--overlap experts` hides", problem.model.name),
                      {},
                      {fmt::format("write `--overlap {}`", overlap_words(overlap.parts & ~kOverlapExperts))}});
  if (!errors.empty()) return errors;
  for (const OverlapPart& part : kOverlapParts)
    if ((row.overlaps & part.bit) != 0) problem.training.stack.*part.on = (overlap.parts & part.bit) != 0;
  return {};
}

Errors take_dispatcher(Dispatcher dispatcher, Problem& problem) {
  if (!framework_row(problem.framework).dispatches)
    return {needs_framework(&FrameworkRow::dispatches, "how tokens reach their experts has words in {} alone",
                            problem.framework)};
  if (!problem.model.kinds.empty() && !problem.model.moe())
    return {{"conflicting_flags",
             fmt::format("{} has no experts, to which `--dispatcher` sends tokens", problem.model.name),
             {},
             without("dispatcher")}};
  const bool once = dispatcher == Dispatcher::Flex;
  if (once && !sends_once_a_node(problem.cluster.gpu))
    return {{"conflicting_flags",
             fmt::format("DeepEP and HybridEP run on Hopper and Blackwell, not on {}", problem.cluster.gpu.name),
             {},
             {"write `--dispatcher alltoall`"}}};
  problem.training.stack.dedup_dispatch = once;
  return {};
}

std::string modules_that_stay(const Problem& problem) {
  return module_words(static_cast<std::uint16_t>(problem.training.offload.modules & ~movable_modules(problem)));
}

Errors take_bf16_layers(const Bf16Layers& layers, bool by_person, Problem& problem) {
  const Precision precision = problem.training.precision;
  if (by_person && layers.any() && !is_narrow(precision))
    return {{"conflicting_flags",
             fmt::format("`--bf16-layers {}` spares layers fp8 or nvfp4, and all are in {}", bf16_layers_text(layers),
                         name(precision)),
             {},
             narrow_or_without(problem.cluster.gpu)}};
  if (layers.any() && !framework_row(problem.framework).spares_layers)
    return {needs_framework(&FrameworkRow::spares_layers, "some layers in bf16 beside others are known of {} alone",
                            problem.framework)};
  if (const int depth = problem.model.depth(); depth > 0 && layers.first + layers.last > depth)
    return {{"out_of_range",
             fmt::format("`--bf16-layers {}` spares {} layers, and {} has {}", bf16_layers_text(layers),
                         layers.first + layers.last, problem.model.name, depth),
             {},
             {"leave some in the narrow format, or say `--precision bf16`"}}};
  problem.training.bf16_layers = layers;
  problem.model = with_bf16_layers(std::move(problem.model), layers);
  return {};
}

Result<LocalUpdates> read_diloco(std::string_view text) {
  constexpr std::int64_t kMostSteps = 1'000'000, kMostCopies = 65'536;
  const std::size_t comma = text.find(',');
  LocalUpdates local{.steps = 0, .copies = 0};
  const Result<std::int64_t> steps = read_count("--diloco", std::string(text.substr(0, comma)), 1, kMostSteps);
  if (!steps) return fail(steps.error());
  local.steps = static_cast<int>(*steps);
  if (comma == std::string_view::npos) return local;
  constexpr std::string_view kCopies = "copies=";
  const std::string_view rest = text.substr(comma + 1);
  if (!rest.starts_with(kCopies))
    return fail({"bad_value",
                 fmt::format("`--diloco {}` says something else than steps and copies", text),
                 {},
                 {"write it as `--diloco 500,copies=4`"}});
  const Result<std::int64_t> copies =
      read_count("--diloco copies", std::string(rest.substr(kCopies.size())), 2, kMostCopies);
  if (!copies) return fail(copies.error());
  local.copies = static_cast<int>(*copies);
  return local;
}

Errors take_diloco(const LocalUpdates& local, Problem& problem) {
  if (problem.framework != Framework::None)
    return {{"unsupported_framework",
             "no framework that plan writes launch files for trains copies apart; torchft, OpenDiLoCo and prime do",
             {},
             {"add `--framework none` for an estimate"}}};
  if (problem.training.adapters())
    return {{"conflicting_flags", "`--diloco` is priced for whole models, not for adapters", {}, {}}};
  LocalUpdates taken = local;
  const std::vector<Tier>& tiers = problem.cluster.tiers;
  if (taken.copies == 0 && tiers.size() > 2) {
    const int site = std::max(1, tiers[tiers.size() - 2].size);
    taken.copies = (problem.gpus + site - 1) / site;
  }
  if (taken.copies < 2)
    return {{"missing_flag",
             "`--diloco` needs copies, and the GPUs are of one site",
             {},
             {fmt::format("say how many: `--diloco {},copies=4`", local.steps)}}};
  if (problem.gpus % taken.copies != 0)
    return {{"does_not_divide",
             fmt::format("{} copies do not divide {} GPUs", taken.copies, problem.gpus),
             {},
             {"give each copy as many GPUs"}}};
  problem.training.local = taken;
  problem.notes.push_back(
      {"local_updates", fmt::format("{} copies meet every {} steps: what that costs the loss is not priced "
                                    "(arXiv 2311.08105)",
                                    taken.copies, taken.steps)});
  return {};
}

Result<double> read_imbalance(std::string_view text) {
  constexpr double kMost = 1000;  // all tokens to one rank of as many
  Result<double> factor = read_amount("--imbalance", text, kMost, "1.3");
  if (const Result<double> more = read_amount("--imbalance", text.substr(0, text.find_last_of('%')), kMost, "1.3");
      !factor && text.ends_with('%') && more) {
    std::vector<std::string> help = {
        fmt::format("it is a factor of the mean: `--imbalance {:g}` is {:g} % more than that", 1 + *more / 100, *more)};
    if (*more >= 100)  // as others write the factor itself
      help.insert(help.begin(), fmt::format("write `--imbalance {:g}` for {:g} % of the mean", *more / 100, *more));
    factor.error().front().help = std::move(help);
  }
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
             without("imbalance")}};
  for (const Layer& kind : problem.model.kinds) {
    const MoeShape& moe = kind.moe;
    if (kind.ffn != Ffn::Moe || moe.top_k < 1) continue;
    const double most = static_cast<double>(moe.experts) / static_cast<double>(moe.top_k);  // every token goes there
    if (factor > most)
      return {
          {"out_of_range",
           fmt::format("`--imbalance {:g}`: a token of {} goes to {} of {} experts, so that the busiest has at most "
                       "{:g} times the mean",
                       factor, problem.model.name, moe.top_k, moe.experts, most),
           {},
           {fmt::format("write `--imbalance {:g}` or less", std::floor(most * 1000) / 1000)}}};
  }
  problem.training.stack.routing_imbalance = factor;
  return {};
}

}  // namespace plan
