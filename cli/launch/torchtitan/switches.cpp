// What a torchtitan configuration says beside its layout: switches of its software, and values that nothing here
// prices, which are reported. Defaults: torchtitan v0.2.2 config/job_config.py. Tested by
// tests/launch/torchtitan_switches_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/torchtitan/filters.hpp"
#include "cli/launch/torchtitan/torchtitan.hpp"
#include "planner/rules/stack_data.hpp"
#include "presets/yaml.hpp"

namespace plan::torchtitan {
namespace {

/// When a key has a say: torchtitan passes over what a job without that axis, format or mode states.
enum class When { Always, Tensor, Context, Experts, Pipeline, Selective, Compiled, Float8, Mx };

/// A key that is counted as if it had a plain value, where it has a say.
struct Weighing {
  CountedAs counted;
  When when;
};
constexpr Weighing kWeighing[] = {
    {{"optimizer.name", "Adam AdamW", "the optimizer is counted as AdamW"}, When::Always},
    {{"optimizer.implementation", "fused fused_opt_states_bf16", "the optimizer's kernels are counted as fused"},
     When::Always},
    {{"optimizer.early_step_in_backward", "false", "gradients that are freed as they are used are counted as kept"},
     When::Always},
    {{"training.mixed_precision_reduce", "float32", "gradients are counted as reduced in fp32"}, When::Always},
    {{"parallelism.enable_async_tensor_parallel", "false",
      "messages of tensor ranks that hide behind products are counted as not hidden"},
     When::Tensor},
    {{"parallelism.context_parallel_load_balancer", "headtail",
      "the ranks' shares of causal attention are counted as equal"},
     When::Context},
    {{"parallelism.pipeline_parallel_expert_parallel_overlap", "true",
      "messages of experts are counted as hidden where the schedule hides them"},
     When::Pipeline},
    {{"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns", "moe.router.gate",
      "which products selective recomputation computes again is counted as by default"},
     When::Selective},
    {{"compile.backend", "inductor", "kernels are counted as inductor's"}, When::Compiled},
    {{"quantize.linear.float8.recipe_name", "tensorwise", "scales are counted as tensorwise"}, When::Float8},
    {{"quantize.linear.float8.emulate", "false", "emulated fp8 is counted as the hardware's"}, When::Float8},
    {{"quantize.linear.mx.recipe_name", "mxfp8_cublas mxfp8", "it is counted as mxfp8_cublas"}, When::Mx},
    {{"comm.mode", "default", "a run without its messages is counted with them"}, When::Always},
    {{"memory_estimation.enable", "false", "an estimate of memory is counted as a training"}, When::Always},
    {{"fault_tolerance.enable", "false", "replica groups of fault tolerance are not counted"}, When::Always},
    {{"debug.deterministic", "false", "deterministic kernels are counted as quick as others"}, When::Always},
    {{"experimental.custom_import", "", "what code of its own changes is not known"}, When::Always},
    {{"experimental.custom_args_module", "", "what code of its own changes is not known"}, When::Always},
    {{"job.custom_config_module", "", "what code of its own changes is not known"}, When::Always},
};

bool lists(Settings& settings, std::string_view key, std::string_view word) {
  const Setting* setting = settings.get(key);
  if (setting == nullptr) return false;
  const std::vector<std::string> words = words_of(*setting);
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// What is compiled, as far as the file says. Only v0.2.2's TOML file is whole: elsewhere a base may state it.
void read_compile(JobBuilder& builder, bool whole) {
  Settings& settings = builder.settings;
  constexpr std::string_view kEnable = "compile.enable", kComponents = "compile.components";
  const bool stated = settings.states(kEnable);
  const bool enabled = settings.boolean(kEnable).value_or(false);
  if (!stated && !whole) return;
  const bool all = !settings.states(kComponents);
  const bool model = enabled && (all || lists(settings, kComponents, "model"));
  const bool loss = enabled && (all || lists(settings, kComponents, "loss"));
  builder.origin("compile", model && loss ? "on" : model ? "model" : loss ? "loss" : "off", kEnable);
  const Stack way = model ? stacks::torchtitan() : stacks::fsdp();
  Stack& stack = builder.training.stack;
  stack.fused_pointwise = way.fused_pointwise, stack.fused_softmax = way.fused_softmax;
  stack.fused_norms = way.fused_norms, stack.fused_activation = way.fused_activation;
  // The recipes of main bring a loss of their own, which is no part of what they compile.
  if (whole) stack.cross_entropy = (loss ? stacks::torchtitan() : stacks::fsdp()).cross_entropy;
}

/// Adam's moments in bf16 (docs/bf16_optimizer_states.md).
void read_moments(JobBuilder& builder) {
  constexpr std::string_view kKey = "optimizer.implementation";
  if (builder.settings.text(kKey).value_or("") != "fused_opt_states_bf16") return;
  builder.training.moment1_bytes = builder.training.moment2_bytes = 2;
}

void tell_converters(JobBuilder& builder) {
  constexpr std::string_view kRead = "quantize.linear.float8 quantize.linear.mx float8 mx";
  const Setting* setting = builder.settings.get("model.converters");
  if (setting == nullptr) return;
  for (const std::string& word : words_of(*setting))
    if (!is_plain(word, kRead))
      builder.unmodelled("not_counted", fmt::format("{}: what the converter `{}` changes is not counted",
                                                    setting->where(), yaml::printable(word)));
}

}  // namespace

void read_switches(JobBuilder& builder, const Degrees& d, bool whole) {
  Settings& settings = builder.settings;
  Stack& stack = builder.training.stack;
  read_compile(builder, whole);
  read_moments(builder);
  const Precision precision = builder.training.precision;
  const bool moe = !builder.job.model || builder.job.model->moe();
  const auto applies = [&](When when) {
    switch (when) {
      case When::Always: return true;
      case When::Tensor: return d.tp > 1;
      case When::Context: return d.cp > 1;
      case When::Experts: return moe && d.ep > 1;
      case When::Pipeline: return d.pp > 1 && moe;
      case When::Selective: return settings.text("activation_checkpoint.mode").value_or("selective") == "selective";
      case When::Compiled: return stack.fused_pointwise;
      case When::Float8: return precision == Precision::Fp8Tensorwise;
      case When::Mx: return precision == Precision::Mxfp8;
    }
    return true;
  };
  for (const Weighing& row : kWeighing)
    if (applies(row.when)) tell_counted_as(builder, row.counted);
  tell_converters(builder);
  read_bf16_layers(builder);
  if (applies(When::Tensor) && settings.boolean("parallelism.disable_loss_parallel").value_or(false))
    stack.vocab_parallel_loss = false;
  if (applies(When::Float8))
    stack.fp8_param_gather = settings.boolean("quantize.linear.float8.enable_fsdp_float8_all_gather").value_or(false);
  if (settings.boolean("debug.deterministic").value_or(false)) stack.deterministic = true;
  if (const std::optional<bool> early = settings.boolean("activation_checkpoint.early_stop"))
    stack.prunes_recompute = *early;
  constexpr std::string_view kBackend = "parallelism.expert_parallel_comm_backend";
  const std::string backend = settings.text(kBackend).value_or("standard");
  if (backend == "deepep" || backend == "hybridep")
    stack.dedup_dispatch = applies(When::Experts);
  else if (backend != "standard")
    settings.refuse(*settings.get(kBackend), "standard, deepep or hybridep");
}

}  // namespace plan::torchtitan
