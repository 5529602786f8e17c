// What a reader must know of the hardware and the software that the figures rest on. Tested by
// tests/cli/edited_hardware_test.cpp.
#include "planner/choice/hardware_notes.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string>

#include "formulas/names.hpp"
#include "formulas/textbook/textbook_states.hpp"
#include "planner/choice/unlikely.hpp"
#include "planner/memory/memory.hpp"
#include "planner/rules/frameworks.hpp"

namespace plan {
namespace {

/// What of a profile was measured, and what replaces the rest.
std::string coverage(const Cluster& cluster) {
  std::string text = fmt::format("{}: measured {}", cluster.name, fmt::join(cluster.measured_parts, ", "));
  if (!cluster.unmeasured_parts.empty())
    text += fmt::format("; not measured {}", fmt::join(cluster.unmeasured_parts, ", "));
  return text;
}

}  // namespace

std::vector<Note> hardware_notes(const Problem& problem, bool at_risk) {
  std::vector<Note> list;
  const Gpu& gpu = problem.cluster.gpu;
  if (!problem.cluster.measured_parts.empty())
    list.push_back({"profile_coverage", coverage(problem.cluster)});
  else if (!problem.cluster.measured)
    list.push_back({"hardware_not_measured", problem.cluster.name + " is a preset, not measured here"});
  else if (!problem.cluster.probed.bandwidth)
    list.push_back({"hardware_not_measured",
                    problem.cluster.name + " says `measured`, and takes its GPU from a preset, which was not"});
  if (!gpu.measured_as.empty())
    list.push_back({"efficiency_inherited", gpu.name + " was never measured: kernels scaled from " + gpu.measured_as});
  if (!gpu.edited.empty())
    list.push_back({"hardware_edited", fmt::format("{}: {}; rates measured under `efficiency: {}` are scaled by them",
                                                   gpu.name, fmt::join(gpu.edited, ", "), gpu.efficiency)});
  for (const std::string& number : unlikely_numbers(problem.cluster))
    list.push_back(
        {"hardware_unlikely", fmt::format("{}: {} is like no GPU: is a unit a thousand times off?", gpu.name, number)});
  if (gpu.efficiency.empty() && gpu.gemm[static_cast<std::size_t>(DType::Bf16)][0].fit.rate.value <= 0)
    list.push_back({"efficiency_unknown",
                    gpu.name + " names no measured rates (`efficiency`): usual shares of its data sheet stand in"});
  if (gpu.architecture == Architecture::Unknown)
    list.push_back({"architecture_unknown",
                    gpu.name + " states no `architecture`: counted with the constants of NVIDIA's Ampere"});
  if (const Stack& stack = problem.training.stack; !fuses_attention(stack, gpu))
    list.push_back({"attention_not_fused",
                    fmt::format("TransformerEngine has no fused attention for {}: scores of all "
                                "pairs of tokens are written and kept; PyTorch has one: `--framework accelerate`",
                                gpu.name)});
  if (!nccl_platform(problem.cluster).known && problem.gpus > 1)
    list.push_back({"communication_memory_unknown",
                    fmt::format("{}: buffers of {} are not known and count as none", gpu.name, name(gpu.library))});
  if (problem.training.offload.any() && gpu.host_link.value == 0)
    list.push_back(
        {"host_link_unknown", gpu.name + ": its link to the host is not known, copies over it count as free"});
  if (problem.training.offload.optimizer > 0)
    list.push_back(
        {"host_optimizer", fmt::format("a host steps {:.3g} G parameters/s by Adam, as ZeRO-Offload's two Xeons did",
                                       textbook::kHostAdamRate / 1e9)});
  if (at_risk)
    list.push_back(
        {"memory_at_risk", "nothing fits for certain: the interval of the peak reaches past the GPU's memory"});
  return list;
}

}  // namespace plan
