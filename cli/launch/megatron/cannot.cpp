// What Megatron-LM cannot express of a plan.
// Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>

#include <string>
#include <string_view>

#include "cli/launch/job/model_facts.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "formulas/names.hpp"
#include "planner/rules/megatron_models.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

Error cannot(std::string_view what, std::string help = {}) {
  Error error{"not_expressible", fmt::format("Megatron-LM cannot run this plan: {}", what), {}, {}};
  if (!help.empty()) error.help.push_back(std::move(help));
  return error;
}

void judge_model(const Model& model, bool by_bridge, Errors& errors) {
  const std::string_view lacks = by_bridge ? megatron_lacks(model) : megatron_flags_lack(model);
  if (lacks.empty()) return;
  std::string help;
  if (megatron_lacks(model).empty())
    help = fmt::format("Megatron-Bridge builds it: write `plan emit {}`",
                       bridge_recipe(model.name).empty() ? "nemo-rl` or `plan emit llama-factory" : "megatron-bridge");
  errors.push_back(cannot(fmt::format("{} has {}", model.name, lacks), std::move(help)));
}

void judge_training(const Training& training, Errors& errors) {
  if (training.adapters())
    errors.push_back(
        cannot(fmt::format("it trains no adapters (`--task {}`)", name(training.task)), "plan with `--task finetune`"));
  if (training.optimizer == Optimizer::Adam8bit || training.optimizer == Optimizer::Adafactor)
    errors.push_back(
        cannot(fmt::format("it has no optimizer `{}`", name(training.optimizer)), "plan with `--optimizer adam`"));
  if (training.offload.parameters)
    errors.push_back(cannot("it keeps weights and gradients on the GPU", "leave `parameters` out of `--offload`"));
  if (training.offload.optimizer > 0 && training.optimizer != Optimizer::Adam)
    errors.push_back(cannot("it offloads the states of adam alone"));
  if (training.offload.optimizer > 0 && training.stack.fp8_param_gather && training.precision != Precision::Fp8Delayed)
    errors.push_back(cannot("with the optimizer in host memory it gathers fp8 weights under delayed scaling alone"));
  if (training.stack.vocab_barriers > 0)
    errors.push_back(cannot("it keeps the vocabulary on the first and last stage"));
}

void judge_layout(const Plan& plan, Errors& errors) {
  Problem problem = plan.problem;
  problem.framework = Framework::Megatron;
  const int rule = broken_rule(problem, plan.best.layout);
  if (rule >= 0) {
    const Rule& row = rules()[static_cast<std::size_t>(rule)];
    const std::string release = row.until > 0 ? fmt::format(" --megatron-version 0.{}", problem.release) : "";
    errors.push_back(cannot(fmt::format("{} (rule {})", row.text, row.code),
                            fmt::format("plan with `--framework megatron{}`", release)));
  }
}

}  // namespace

Errors megatron_cannot(const Plan& plan, bool by_bridge) {
  Errors errors;
  judge_model(plan.problem.model, by_bridge, errors);
  judge_training(plan.problem.training, errors);
  judge_layout(plan, errors);
  return errors;
}

}  // namespace plan
