#pragma once

#include <fmt/core.h>

#include <string_view>

#include "cli/terminal/cuda_graphs.hpp"
#include "cli/terminal/overlap_words.hpp"
#include "cli/terminal/state_formats.hpp"
#include "formulas/result.hpp"
#include "planner/problem/problem.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {

/// Only frameworks with the property have what is asked for. Their titles stand for "{}" in the sentence `what`. Where
/// the job is for another framework, by a word or by the kind of files to write, one of both has to go.
template <class Property>
[[nodiscard]] Error needs_framework(const Property& property, std::string_view what, Framework now) {
  Error error{"conflicting_flags", fmt::format(fmt::runtime(what), framework_titles(property)), {}, {}};
  const bool open = now == Framework::Any || now == Framework::None;
  if (const FrameworkRow* row = framework_with(Framework::Any, property))
    error.help.push_back(open ? fmt::format("add `{}`", framework_flag(*row))
                              : fmt::format("leave it out, or plan for {}", row->title));
  return error;
}

/// Number formats of the optimizer's states, in frameworks that let them be narrower than fp32.
[[nodiscard]] Errors take_state_formats(const StateFormats& formats, Problem& problem);

/// What graphs launch, in frameworks with words for it, of the parts that the model has and whose shapes are known
/// beforehand.
[[nodiscard]] Errors take_cuda_graphs(const CudaGraphs& graphs, Problem& problem);

/// Messages beside compute, of the kinds that the framework has words for; the others stay as its software has them.
[[nodiscard]] Errors take_overlap(const Overlap& overlap, Problem& problem);

/// How tokens reach their experts, in frameworks and on GPUs that have a choice.
[[nodiscard]] Errors take_dispatcher(Dispatcher dispatcher, Problem& problem);

/// Layers whose activations lie in host memory: no more than the model has, in frameworks that offload any.
[[nodiscard]] Errors offload_without_ground(const Problem& problem);

/// What of the modules that `--offload` names the model lacks or its CUDA graphs keep on the GPU; empty if nothing.
[[nodiscard]] std::string modules_that_stay(const Problem& problem);

/// Layers that stay in bf16 beside others in fp8 or fp4, in frameworks with words for it. Files may say so of a
/// precision that a person replaces: only what a person states is refused where it means nothing.
[[nodiscard]] Errors take_bf16_layers(const Bf16Layers& layers, bool by_person, Problem& problem);

/// "500" inner steps, or "500,copies=4".
[[nodiscard]] Result<LocalUpdates> read_diloco(std::string_view text);

/// Copies of the job that meet every so many steps; as many as the cluster has sites where nobody says.
[[nodiscard]] Errors take_diloco(const LocalUpdates& local, Problem& problem);

/// Tokens of the busiest expert rank over the mean: 1 or more.
[[nodiscard]] Result<double> read_imbalance(std::string_view text);

/// How unevenly routers spread tokens over the ranks that hold experts; a model without experts is even.
[[nodiscard]] Errors take_imbalance(double factor, Problem& problem);

}  // namespace plan
