// Megatron-LM's files: the arguments in a script of the chosen launcher. Tested by tests/launch/megatron_test.cpp.
#include <fmt/format.h>

#include "cli/launch/launcher.hpp"
#include "cli/launch/megatron.hpp"
#include "cli/launch/megatron_model_facts.hpp"
#include "cli/report/layout_text.hpp"

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

struct Since {
  std::string_view flag;
  std::string_view release;
};
/// First release of flags that came after core 0.12 (launch.md 3.1.1).
constexpr Since kSince[] = {
    {"pipeline-model-parallel-layout", "0.13"},
    {"use-megatron-fsdp", "0.14"},
    {"overlap-moe-expert-parallel-comm", "0.14"},
    {"softmax-type", "0.14"},
    {"fp4-format", "0.15"},
    {"moe-flex-dispatcher-backend", "0.16"},
};

std::string least_release(const std::vector<MegatronGroup>& groups) {
  std::string_view least = "0.12";
  for (const MegatronGroup& group : groups)
    for (const MegatronSetting& setting : group.settings)
      for (const Since& row : kSince)
        if (setting.flag == row.flag && row.release > least) least = row.release;
  return std::string(least);
}

}  // namespace

Result<std::vector<LaunchFile>> write_megatron(const Plan& plan, const EmitOptions& options) {
  const Result<std::vector<MegatronGroup>> groups = megatron_settings(plan, options);
  if (!groups) return fail(groups.error());
  LaunchCommand command;
  command.title =
      fmt::format("{} on {} GPUs ({})", plan.problem.model.name, plan.problem.gpus, plan.problem.cluster.gpu.name);
  command.comments = {
      axes_text(plan.best, plan.problem.model.moe()),
      fmt::format("Written by plan for Megatron-LM; needs Megatron core {} or newer.", least_release(*groups)),
      "Not the plan's: learning rate, iterations, data and tokenizer. Look at them before a long run."};
  if (megatron_model_facts(plan.problem.model.name).rotary_base == 0 && plan.problem.model.positions == 0)
    command.comments.emplace_back("The rotary base is not known here: Megatron's default of 10000 stands.");
  command.environment = megatron_environment(plan);
  command.setup = {"MEGATRON_PATH=\"${MEGATRON_PATH:?set MEGATRON_PATH to a Megatron-LM checkout}\""};
  command.program = "\"$MEGATRON_PATH/pretrain_gpt.py\"";
  command.plain_program = "pretrain_gpt.py";
  for (const MegatronGroup& group : *groups) command.groups.push_back(lines_of(group));
  command.stem = job_name(plan, options);
  return write_launcher(command, plan, options);
}

}  // namespace plan
