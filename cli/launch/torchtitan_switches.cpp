// What a torchtitan configuration says beside its layout: switches of its software, and values that nothing here
// prices, which are told. Defaults: torchtitan v0.2.2 config/job_config.py. Tested by
// tests/launch/torchtitan_switches_test.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cli/launch/torchtitan.hpp"
#include "planner/rules/stack_data.hpp"
#include "presets/yaml.hpp"

namespace plan::torchtitan {
namespace {

/// When a key has a say: torchtitan passes over what a job without that axis, format or mode states.
enum class When { Always, Tensor, Context, Experts, Pipeline, Selective, Compiled, Float8, Mx };

/// A key whose other values change time or memory, and that is counted as if it had one of the plain ones.
struct Weighing {
  std::string_view key;
  std::string_view plain;  ///< values that change nothing, between blanks
  When when;
  std::string_view what;
};
constexpr Weighing kWeighing[] = {
    {"optimizer.name", "Adam AdamW", When::Always, "the optimizer is counted as AdamW"},
    {"optimizer.implementation", "fused", When::Always, "the optimizer's kernels are counted as fused"},
    {"optimizer.early_step_in_backward", "false", When::Always,
     "gradients that are freed as they are used are counted as kept"},
    {"training.mixed_precision_reduce", "float32", When::Always, "gradients are counted as reduced in fp32"},
    {"parallelism.enable_async_tensor_parallel", "false", When::Tensor,
     "messages of tensor ranks that hide behind products are counted as not hidden"},
    {"parallelism.context_parallel_load_balancer", "headtail", When::Context,
     "the ranks' shares of causal attention are counted as equal"},
    {"parallelism.pipeline_parallel_expert_parallel_overlap", "true", When::Pipeline,
     "messages of experts are counted as hidden where the schedule hides them"},
    {"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns", "moe.router.gate", When::Selective,
     "which products selective recomputation computes again is counted as by default"},
    {"compile.backend", "inductor", When::Compiled, "kernels are counted as inductor's"},
    {"quantize.linear.float8.recipe_name", "tensorwise", When::Float8, "scales are counted as tensorwise"},
    {"quantize.linear.float8.filter_fqns", "output", When::Float8, "layers that stay in bf16 are counted in fp8"},
    {"quantize.linear.float8.emulate", "false", When::Float8, "emulated fp8 is counted as the hardware's"},
    {"quantize.linear.mx.recipe_name", "mxfp8_cublas mxfp8", When::Mx, "it is counted as mxfp8_cublas"},
    {"quantize.linear.mx.filter_fqns", "output", When::Mx, "layers that stay in bf16 are counted in mxfp8"},
    {"comm.mode", "default", When::Always, "a run without its messages is counted with them"},
    {"memory_estimation.enable", "false", When::Always, "an estimate of memory is counted as a training"},
    {"fault_tolerance.enable", "false", When::Always, "replica groups of fault tolerance are not counted"},
    {"debug.deterministic", "false", When::Always, "deterministic kernels are counted as quick as others"},
    {"experimental.custom_import", "", When::Always, "what code of its own changes is not known"},
    {"experimental.custom_args_module", "", When::Always, "what code of its own changes is not known"},
    {"job.custom_config_module", "", When::Always, "what code of its own changes is not known"},
};

bool plain(std::string_view word, std::string_view values) {
  return word.empty() || (" " + std::string(values) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

std::vector<std::string> words_of(const Setting& setting) {
  return setting.list ? setting.items : std::vector<std::string>{setting.value};
}

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

void tell(JobBuilder& builder, const Weighing& row) {
  const Setting* setting = builder.settings.get(row.key);
  if (setting == nullptr) return;
  for (const std::string& word : words_of(*setting))
    if (!plain(word, row.plain))
      return builder.unmodelled(
          "not_counted", fmt::format("{}: `{} = {}`: {}", setting->where(), row.key, yaml::printable(word), row.what));
}

void tell_converters(JobBuilder& builder) {
  constexpr std::string_view kRead = "quantize.linear.float8 quantize.linear.mx float8 mx";
  const Setting* setting = builder.settings.get("model.converters");
  if (setting == nullptr) return;
  for (const std::string& word : words_of(*setting))
    if (!plain(word, kRead))
      builder.unmodelled("not_counted", fmt::format("{}: what the converter `{}` changes is not counted",
                                                    setting->where(), yaml::printable(word)));
}

}  // namespace

void read_switches(JobBuilder& builder, const Degrees& d, bool whole) {
  Settings& settings = builder.settings;
  Stack& stack = builder.training.stack;
  read_compile(builder, whole);
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
    if (applies(row.when)) tell(builder, row);
  tell_converters(builder);
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
