// Inputs of a job that a user may change, one at a time: what the search does not vary. Tested by
// tests/planner/advice_test.cpp and tests/planner/nearest_test.cpp.
#include "planner/search/switches.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "formulas/activation.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/names.hpp"
#include "formulas/overlap.hpp"
#include "planner/answer/switch_words.hpp"
#include "planner/memory/host_memory.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/words.hpp"

namespace plan {
namespace {

/// The framework that may run the job and has words for the property; nullptr if none does on these GPUs.
const FrameworkRow* with_words(const Problem& problem, bool FrameworkRow::*property) {
  const FrameworkRow* row = framework_with(problem.framework, property);
  return row != nullptr && runs_on(*row, problem.cluster.gpu.vendor) ? row : nullptr;
}

constexpr std::string_view kSearched = "the search";

/// Does a framework whose software the job's figures are of have it?
bool some_wanted(const Problem& problem, bool FrameworkRow::*has) {
  const std::span<const FrameworkRow> rows = frameworks();
  return std::any_of(rows.begin(), rows.end(), [&](const FrameworkRow& row) {
    return named(row.framework) && problem.framework != Framework::None && row.*has &&
           (wanted_frameworks(problem) & framework_bit(row.framework)) != 0;
  });
}

/// Does a host step the job's optimizer? Frameworks have Adam and SGD there (Megatron core 0.19, optimizer/__init__.py;
/// DeepSpeed, ops/adam/cpu_adam.py); what takes products of matrices would hold all GPUs up.
bool steps_on_host(const Training& training) {
  return training.optimizer == Optimizer::Adam || training.optimizer == Optimizer::Sgd ||
         training.optimizer == Optimizer::SgdMomentum;
}

/// The job under the framework that has these words, and its software with the defaults that naming it takes, unless
/// the job states another.
ChangedJob under(const FrameworkRow& row, const Problem& problem, const std::string& words) {
  ChangedJob change{words, problem};
  if (problem.framework == row.framework) return change;
  change.flag = framework_flag(row) + " " + words;
  change.problem.framework = row.framework;
  const Gpu& gpu = problem.cluster.gpu;
  if (problem.training.stack == stack_under(problem, framework_row(problem.framework), gpu))
    change.problem.training.stack = stack_under(problem, row, gpu);
  return change;
}

}  // namespace

ChangedJob with_gpus(const Problem& problem, int gpus) {
  ChangedJob change{fmt::format("--gpus {}", gpus), problem};
  change.problem.gpus = gpus;
  return change;
}

ChangedJob with_batch(const Problem& problem, std::int64_t batch) {
  ChangedJob change{fmt::format("--global-batch {}", batch), problem};
  change.problem.training.global_batch = batch;
  return change;
}

std::vector<ChangedJob> freed_axes(const Problem& problem) {
  std::vector<ChangedJob> changes;
  each_axis([&](const auto& axis) {
    if (!(problem.fixed.*axis.fixed)) return;
    ChangedJob change{fmt::format("leave {} free", axis.key), problem};
    Fixed& fixed = change.problem.fixed;
    (fixed.*axis.fixed).reset();
    if (axis.is(&Layout::pp) || axis.is(&Layout::vp) || axis.is(&Layout::schedule)) fixed.chunk_layers.reset();
    if (axis.is(&Layout::pp)) fixed.stages.reset();
    changes.insert(changes.begin(), std::move(change));
  });
  return changes;
}

std::vector<ChangedJob> other_gpus(const Problem& problem) {
  std::vector<ChangedJob> changes;
  for (const Cluster& cluster : problem.alternatives.empty() && problem.more_alternatives
                                    ? problem.more_alternatives(problem.cluster)
                                    : problem.alternatives) {
    ChangedJob change{"--gpu " + cluster.gpu.name, problem};
    change.problem.cluster = with_stated_hosts(cluster, problem);
    const FrameworkRow& row = framework_row(problem.framework);
    if (problem.training.stack == stack_under(problem, row, problem.cluster.gpu))
      change.problem.training.stack = stack_under(problem, row, cluster.gpu);
    if (unsupported_hardware(change.problem).empty()) changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<ChangedJob> other_precisions(const Problem& problem) {
  std::vector<ChangedJob> changes;
  for (const auto& row : kPrecisionNames) {
    if (row.value == problem.training.precision || row.value == Precision::Fp32) continue;
    // As fast as bf16, and needs its loss scaled: no advice to who has both.
    if (row.value == Precision::Fp16 && multiplies(problem.cluster.gpu, Precision::Bf16)) continue;
    if (!multiplies(problem.cluster.gpu, row.value)) continue;
    ChangedJob change{fmt::format("--precision {}", row.name), problem};
    change.problem.training.precision = row.value;
    if (unsupported_hardware(change.problem).empty()) changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<ChangedJob> offloads(const Problem& problem) {
  std::vector<ChangedJob> changes;
  const Offload& stated = problem.training.offload;
  if (problem.cluster.gpu.host_link.value <= 0) return changes;
  const bool steps = steps_on_host(problem.training);
  if (stated.optimizer <= 0 && steps) {
    changes.push_back({"--offload optimizer", problem});
    changes.back().problem.training.offload.optimizer = 1;
  }
  if (const FrameworkRow* all = with_words(problem, &FrameworkRow::offloads_weights);
      all != nullptr && !stated.any() && steps) {
    changes.push_back(under(*all, problem, "--offload optimizer,parameters"));
    changes.back().problem.training.offload = {.optimizer = 1, .parameters = true};
  }
  const FrameworkRow* row = with_words(problem, &FrameworkRow::offloads_activations);
  const std::uint16_t modules = stated.any() || row == nullptr ? std::uint16_t{} : movable_modules(problem);
  if (modules == 0) return changes;
  changes.push_back(under(*row, problem, "--offload " + module_words(modules)));
  changes.back().problem.training.offload.modules = modules;
  return changes;
}

std::vector<ChangedJob> narrower_states(const Problem& problem) {
  std::vector<ChangedJob> changes;
  const Training& training = problem.training;
  if (training.optimizer == Optimizer::Adam && training.moment1_bytes > 2) {
    changes.push_back({"--optimizer adam8bit", problem});
    changes.back().problem.training.optimizer = Optimizer::Adam8bit;
  }
  const FrameworkRow* row = with_words(problem, &FrameworkRow::narrow_states);
  if (row == nullptr) return changes;
  if (training.grad_bytes > 2) {
    changes.push_back(under(*row, problem, "--state-formats grads=bf16"));
    changes.back().problem.training.grad_bytes = 2;
  }
  if (training.optimizer == Optimizer::Adam && training.moment1_bytes > 2) {
    changes.push_back(under(*row, problem, "--state-formats moments=bf16"));
    Training& narrow = changes.back().problem.training;
    narrow.moment1_bytes = narrow.moment2_bytes = 2, narrow.precision_aware = true;
  }
  return changes;
}

std::vector<ChangedJob> adapter_tasks(const Problem& problem) {
  std::vector<ChangedJob> changes;
  const Task task = problem.training.task;
  for (const Task other : {Task::Lora, Task::Qlora}) {
    if (task == Task::Pretrain || task == other || task == Task::Qlora) continue;
    changes.push_back({fmt::format("--task {}", name(other)), problem});
    changes.back().problem.training.task = other;
  }
  return changes;
}

std::vector<ChangedJob> graph_launches(const Problem& problem) {
  const Stack& stack = problem.training.stack;
  const GraphParts parts = graph_parts(problem.model);
  if (parts.scopes == 0 || stack.cuda_graphs || stack.graph_scopes != 0) return {};
  if (!some_wanted(problem, &FrameworkRow::graphs_of_parts)) return {};
  std::vector<ChangedJob> changes = {{"--cuda-graphs " + parts.words, problem}};
  changes.back().problem.training.stack.graph_scopes = parts.scopes;
  return changes;
}

std::vector<ChangedJob> other_messages(const Problem& problem) {
  std::vector<ChangedJob> changes;
  const unsigned on = overlapping(problem.training.stack);
  for (const OverlapPart& part : kOverlapParts) {
    const bool experts = part.bit == kOverlapExperts;
    if ((on & part.bit) != 0 || (part.bit != kOverlapTp && !experts) || (experts && !problem.model.moe())) continue;
    const auto has = [&](const FrameworkRow& row) { return (row.overlaps & (on | part.bit)) == (on | part.bit); };
    const FrameworkRow* row = framework_with(problem.framework, has);
    if (row == nullptr || !runs_on(*row, problem.cluster.gpu.vendor)) continue;
    changes.push_back({"--overlap " + overlap_words(on | part.bit), problem});
    changes.back().problem.training.stack.*part.on = true;
  }
  const FrameworkRow* row = with_words(problem, &FrameworkRow::dispatches);
  if (row == nullptr || !problem.model.moe() || problem.training.stack.dedup_dispatch ||
      !sends_once_a_node(problem.cluster.gpu))
    return changes;
  changes.push_back({"--dispatcher flex", problem});
  changes.back().problem.training.stack.dedup_dispatch = true;
  return changes;
}

std::uint16_t movable_modules(const Problem& problem) {
  Training training = problem.training;
  training.offload.modules = std::numeric_limits<std::uint16_t>::max();
  unsigned all = 0;
  for (const Layer& layer : problem.model.kinds)
    for (const KeptTensor& tensor : kept_tensors(problem.model, layer, training, Layout{}))
      all |= tensor.offload & leaving_modules(layer, training);
  return static_cast<std::uint16_t>(all);
}

SwitchMask turnable_switches(const Problem& problem) {
  const Training& training = problem.training;
  unsigned all = 0;
  if (!graph_launches(problem).empty()) all |= kSwitchGraphs;
  if (problem.cluster.gpu.host_link.value > 0 && !training.offload.any()) {
    const bool steps = steps_on_host(training);
    if (steps && some_wanted(problem, &FrameworkRow::offloads_optimizer)) all |= kSwitchOptimizer;
    if (steps && some_wanted(problem, &FrameworkRow::offloads_weights)) all |= kSwitchOptimizer | kSwitchWeights;
    if (some_wanted(problem, &FrameworkRow::offloads_activations) && movable_modules(problem) != 0)
      all |= kSwitchActivations;
  }
  return static_cast<SwitchMask>(all & problem.free_switches);
}

bool offloads_states_alone(const Problem& problem) { return some_wanted(problem, &FrameworkRow::offloads_optimizer); }

Problem with_switches(const Problem& problem, SwitchMask on) {
  Problem job = problem;
  job.free_switches = 0, job.switched = on;
  on = static_cast<SwitchMask>(on & ~problem.switched);  // the rest is on already
  if ((on & kSwitchGraphs) != 0) {
    const GraphParts parts = graph_parts(problem.model);
    job.training.stack.graph_scopes = parts.scopes;
    job.inputs.push_back({"cuda_graphs", parts.words, Origin::Default, std::string(kSearched)});
  }
  if ((on & kSwitchOptimizer) != 0) job.training.offload.optimizer = 1;
  if ((on & kSwitchWeights) != 0) job.training.offload.parameters = true;
  if ((on & kSwitchActivations) != 0) job.training.offload.modules = movable_modules(job);
  if (const std::string words = offload_words(job, on); !words.empty())
    job.inputs.push_back({"offload", words, Origin::Default, std::string(kSearched)});
  return job;
}

Estimate estimate(const Problem& problem, const Candidate& found) {
  return found.switched == 0 ? estimate(problem, found.layout)
                             : estimate(with_switches(problem, found.switched), found.layout);
}

}  // namespace plan
