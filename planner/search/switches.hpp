#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/answer/estimate.hpp"
#include "planner/problem/problem.hpp"
#include "planner/search/ranking.hpp"

namespace plan {

/// One input of a job changed: as the user would type it, and the job that it makes.
struct ChangedJob {
  std::string flag;
  Problem problem;
};

/// The job on another number of GPUs, or with another global batch in sequences.
[[nodiscard]] ChangedJob with_gpus(const Problem& problem, int gpus);
[[nodiscard]] ChangedJob with_batch(const Problem& problem, std::int64_t batch);
/// The user's own fixed axes, each set free, inner ones first. What suits one pipeline alone goes with it.
[[nodiscard]] std::vector<ChangedJob> freed_axes(const Problem& problem);
/// The problem's alternatives, in their order, that its framework and precision run on.
[[nodiscard]] std::vector<ChangedJob> other_gpus(const Problem& problem);

/// Those of the switches that a job leaves free which its framework, its GPUs and its model have.
[[nodiscard]] SwitchMask turnable_switches(const Problem& problem);
/// Has a framework that may run the job a word for the optimizer's states on the host without the weights?
[[nodiscard]] bool offloads_states_alone(const Problem& problem);
/// The job with these on and none left free; its inputs say so.
[[nodiscard]] Problem with_switches(const Problem& problem, SwitchMask on);
/// A layout that a search of the job found, with its switches.
[[nodiscard]] Estimate estimate(const Problem& problem, const Candidate& found);
/// OffloadModule bits of the modules whose inputs can leave the GPU in some layer of the model, beside the job's
/// graphs.
[[nodiscard]] std::uint16_t movable_modules(const Problem& problem);
/// One switch of the training or its software changed at a time, whether or not that helps. Only what the GPU can
/// multiply and what the job's framework has a word for; Megatron's own words where the framework is left open.
[[nodiscard]] std::vector<ChangedJob> other_precisions(const Problem& problem);
/// The optimizer's states on the host; the inputs of every module that can wait there.
[[nodiscard]] std::vector<ChangedJob> offloads(const Problem& problem);
/// Gradients and moments narrower than fp32, an optimizer with 8-bit states.
[[nodiscard]] std::vector<ChangedJob> narrower_states(const Problem& problem);
/// Of a fine-tuning: adapters in place of all weights, a quantised base in place of a 16-bit one.
[[nodiscard]] std::vector<ChangedJob> adapter_tasks(const Problem& problem);
/// Tensor parallelism's messages, or the experts', beside compute; tokens sent once to each node.
[[nodiscard]] std::vector<ChangedJob> other_messages(const Problem& problem);
/// CUDA graphs of the parts of a layer.
[[nodiscard]] std::vector<ChangedJob> graph_launches(const Problem& problem);

}  // namespace plan
