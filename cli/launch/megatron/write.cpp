// Megatron-LM's files: the arguments in a script of the chosen launcher. Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>

#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/launch/start/launcher.hpp"
#include "planner/answer/layout_text.hpp"
#include "planner/rules/megatron_models.hpp"

namespace plan {
namespace {

constexpr std::size_t kWidth = 110;

/// "--flag value", quoted for the shell.
std::string argument(const MegatronSetting& setting) {
  std::string out = "--" + setting.flag;
  for (const std::string& value : setting.values) out += " " + shell_quoted(value);
  return out;
}

ArgumentGroup lines_of(const MegatronGroup& group) {
  ArgumentGroup out{group.name, {}};
  for (const MegatronSetting& setting : group.settings) {
    const std::string text = argument(setting);
    if (out.lines.empty() || out.lines.back().size() + text.size() > kWidth)
      out.lines.push_back(text);
    else
      out.lines.back() += " " + text;
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> megatron_environment(const Plan& plan) {
  const Stack& stack = plan.problem.training.stack;
  const bool fsdp = plan.best.layout.zero >= 2;
  std::vector<std::pair<std::string, std::string>> out;
  // One hardware queue keeps a collective in front of the GEMM that must overlap it; FSDP needs more than one.
  if (!fsdp) out.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  if (stack.expandable_segments) out.emplace_back("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
  if (stack.expandable_segments && (stack.cuda_graphs || stack.graph_scopes != 0))
    out.emplace_back("NCCL_GRAPH_REGISTER", "0");  // mapped pages and registered buffers do not go together
  out.emplace_back("TORCH_NCCL_AVOID_RECORD_STREAMS", "1");
  if (plan.problem.training.offload.modules != 0) out.emplace_back("NVTE_CPU_OFFLOAD_V1", "1");  // weights stay
  if (stack.overlap_grad_reduce || stack.tp_overlap) {
    out.emplace_back("NVTE_FWD_LAYERNORM_SM_MARGIN", "16");
    out.emplace_back("NVTE_BWD_LAYERNORM_SM_MARGIN", "16");
  }
  return out;
}

Result<std::vector<LaunchFile>> write_megatron(const Plan& plan, const EmitOptions& options) {
  const int release = plan.problem.release > 0 ? plan.problem.release : kNewestMegatron;
  const Result<std::vector<MegatronGroup>> newest = megatron_settings(with_demands_of(plan, release), options);
  if (!newest) return fail(newest.error());
  const Result<std::vector<MegatronGroup>> groups = for_megatron_release(*newest, release);
  if (!groups) return fail(groups.error());
  LaunchCommand command;
  command.title =
      fmt::format("{} on {} GPUs ({})", plan.problem.model.name, plan.problem.gpus, plan.problem.cluster.gpu.name);
  command.comments = {axes_text(plan.best, plan.problem.model.moe()),
                      fmt::format("Written by plan for Megatron-LM; needs Megatron core {}.",
                                  releases_text(megatron_releases(*groups))),
                      "Not the plan's: learning rate, iterations, data and tokenizer. Look at them before a long run."};
  if (launch_model_facts(plan.problem.model.name, plan.problem.training.seq).rotary_base == 0 &&
      plan.problem.model.positions == 0 && !is_hybrid(plan.problem.model))
    command.comments.emplace_back("The rotary base is not known here: Megatron's default of 10000 applies.");
  command.environment = megatron_environment(plan);
  command.setup = {"MEGATRON_PATH=\"${MEGATRON_PATH:?set MEGATRON_PATH to a Megatron-LM checkout}\""};
  command.plain_program = is_hybrid(plan.problem.model) ? "pretrain_mamba.py" : "pretrain_gpt.py";
  command.program = fmt::format("\"$MEGATRON_PATH/{}\"", command.plain_program);
  for (const MegatronGroup& group : *groups) command.groups.push_back(lines_of(group));
  command.stem = job_name(plan, options);
  return write_launcher(command, plan, options);
}

}  // namespace plan
