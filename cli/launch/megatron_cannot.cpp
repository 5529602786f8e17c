// What Megatron-LM cannot express of a plan.
// Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "cli/launch/megatron.hpp"
#include "cli/launch/megatron_hybrid.hpp"
#include "cli/launch/megatron_model_facts.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/names.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

Error cannot(std::string_view what, std::string help = {}) {
  Error error{"not_expressible", fmt::format("Megatron-LM cannot run this plan: {}", what), {}, {}};
  if (!help.empty()) error.help.push_back(std::move(help));
  return error;
}

/// The shape of a layer's mixer, without its window, which may differ from layer to layer.
Layer mixer_of(const Layer& layer) {
  Layer mixer;
  mixer_row(layer.mixer).part.put(mixer, layer);
  mixer.attention.window = 0;
  return mixer;
}

/// All layers have one attention, but for those that scan, which are Gated DeltaNet of one shape.
bool mixes_as_flags_say(const Model& model) {
  std::vector<Layer> found;
  for (const Layer& kind : model.kinds)
    if (std::find(found.begin(), found.end(), mixer_of(kind)) == found.end()) found.push_back(mixer_of(kind));
  const auto scans = [](const Layer& mixer) { return mixer.mixer == Mixer::DeltaNet; };
  return std::count_if(found.begin(), found.end(), scans) <= 1 &&
         std::count_if(found.begin(), found.end(), std::not_fn(scans)) == 1;
}

void judge_model(const Model& model, Errors& errors) {
  if (megatron::is_hybrid(model)) {
    if (!megatron::has_letters(model))
      errors.push_back(cannot(fmt::format("{} mixes layers that no `--hybrid-layer-pattern` spells", model.name)));
    return;
  }
  if (!mixes_as_flags_say(model))
    return errors.push_back(cannot(fmt::format("the attention of {} differs from layer to layer", model.name)));
  if (model.mtp.depth > 0 && model.mtp.kinds != std::vector<int>{model.layers.back()})
    return errors.push_back(cannot(fmt::format("the prediction layers of {} are none like its last one", model.name)));
  for (const Layer& kind : model.kinds) {
    if (kind.norms != 2)
      return errors.push_back(cannot(fmt::format("layers of {} have {} norms, not 2", model.name, kind.norms)));
    if (kind.attention.qk_norm == QkNorm::Full || kind.latent.index_heads > 0 || kind.moe.latent > 0)
      return errors.push_back(
          cannot(fmt::format("{} has an attention or expert variant that is not written yet", model.name)));
  }
  if (model.embedding_norm || model.head_bias)
    errors.push_back(cannot(fmt::format("{} has a norm behind the embedding or a bias in the head", model.name)));
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

Errors megatron_cannot(const Plan& plan, const EmitOptions&) {
  Errors errors;
  judge_model(plan.problem.model, errors);
  judge_training(plan.problem.training, errors);
  judge_layout(plan, errors);
  return errors;
}

}  // namespace plan
