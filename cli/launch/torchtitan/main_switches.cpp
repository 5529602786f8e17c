// What a recipe for torchtitan's main branch says beside its layout and batch: formats, recomputation, optimizer, loss,
// kernels, and arguments that nothing here prices, which are reported. Defaults: main b5bcd76c config/configs.py,
// components/optimizer/optimizer.py, components/loss.py, distributed/activation_checkpoint.py, models/*/__init__.py.
// Tested by tests/launch/torchtitan_main_switches_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "cli/launch/torchtitan/torchtitan.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan::torchtitan {
namespace {

void read_main_recompute(JobBuilder& builder) {
  constexpr std::string_view kKey = "activation_checkpoint";
  const std::string word = builder.settings.text(kKey).value_or("SelectiveAC.Config");
  const auto fix = [&](const Recompute& recompute, std::string_view text) {
    builder.fix(&Fixed::recompute, recompute, text, kKey);
  };
  if (word == "none") return fix({}, "none");
  if (word == "FullAC.Config") return fix({.kind = RecomputeKind::Full}, "full");
  if (word == "SelectiveAC.Config") return fix({.kind = RecomputeKind::Selective, .modules = kRecomputeOps}, "op");
  builder.unmodelled("recompute_unknown", fmt::format("{}: `{}` is not modelled", builder.settings.where(kKey), word));
}

/// What a recipe states outside of layout and batch, and what is counted instead.
constexpr CountedAs kCounted[] = {
    {"model_spec.attn_backend", "sdpa flex", "attention is counted as the kernel that all recipes have"},
    {"parallelism.enable_fsdp_symm_mem", "false", "messages of FSDP are counted as NCCL's"},
    {"compile.enable_async_tensor_parallel", "false",
     "messages of tensor ranks that hide behind products are counted as not hidden"},
    {"debug.detect_anomaly", "false", "looking for what is no number is counted as taking no time"},
    {"debug.batch_invariant", "false", "kernels that do not depend on the batch are counted as quick as others"},
    {"loss.num_chunks", "8", "the loss is counted in eight chunks"},
    {"override_imports", "", "what code of its own changes is not known"},
    {"override.imports", "", "what code of its own changes is not known"},
};

void read_optimizer(JobBuilder& builder) {
  constexpr std::string_view kKey = "optimizer";
  const std::string word = lowered(builder.settings.text(kKey).value_or("default_adamw"));
  if (word.find("muon") != std::string::npos) {
    builder.training.optimizer = Optimizer::Muon;
    builder.origin("optimizer", name(Optimizer::Muon), kKey);
  } else if (word != "default_adamw" && word != "optimizerscontainer.config") {
    tell_counted_as(builder, {kKey, "", "the optimizer is counted as AdamW"});
  }
}

/// Which kernels exchange tokens of experts, as the arguments of the model's registry say.
void read_dispatch(JobBuilder& builder, const Degrees& d) {
  constexpr std::string_view kKey = "model_spec.moe_comm_backend";
  const std::string word = builder.settings.text(kKey).value_or("standard");
  if (d.ep == 1 || word == "standard") return;
  builder.training.stack.dedup_dispatch = true;
  tell_counted_as(builder, {kKey, "deepep hybridep", "the exchange of tokens is counted as DeepEP's"});
}

/// Recipes of main take the loss in chunks of the output; another one takes the logits whole.
void read_loss(JobBuilder& builder) {
  constexpr std::string_view kKey = "loss";
  const std::string loss = builder.settings.text(kKey).value_or("");
  if (loss.empty()) return;
  Stack& stack = builder.training.stack;
  stack.cross_entropy = loss.starts_with("Chunked") ? CrossEntropy::Chunked
                        : stack.fused_pointwise     ? CrossEntropy::Compiled
                                                    : CrossEntropy::Eager;
  if (!loss.starts_with("Chunked") && !loss.starts_with("CrossEntropy"))
    tell_counted_as(builder, {kKey, "", "the loss is counted as that of the next token"});
}

/// A key's word, which must be one of two.
std::string one_of_two(Settings& settings, std::string_view key, std::string_view usual, std::string_view other) {
  std::string word = settings.text(key).value_or(std::string(usual));
  if (word != usual && word != other) settings.refuse(*settings.get(key), fmt::format("{} or {}", usual, other));
  return word;
}

std::optional<Precision> precision_of(std::string_view converter) {
  if (converter.starts_with("Float8LinearConverter")) return Precision::Fp8Tensorwise;
  if (converter.starts_with("MXFP8LinearConverter")) return Precision::Mxfp8;
  if (converter.starts_with("NVFP4LinearConverter")) return Precision::Nvfp4;
  return std::nullopt;
}

/// What a converter does beside the format of its linears: emulation and recipes, adapters, formats of experts.
void tell_converter(JobBuilder& builder, const Setting& converters, std::string_view call) {
  const std::string_view name = call.substr(0, call.find_first_of(".("));
  if (!precision_of(name))
    return builder.unmodelled("not_counted", fmt::format("{}: what the converter `{}` changes is not counted",
                                                         converters.where(), yaml::printable(name)));
  for (const std::string_view argument : {"emulate=True", "recipe_name", "swizzle", "pad_token"})
    if (call.find(argument) != std::string_view::npos)
      builder.unmodelled("not_counted", fmt::format("{}: `{}` of `{}` is not counted", converters.where(), argument,
                                                    yaml::printable(name)));
}

void read_main_precision(JobBuilder& builder) {
  Settings& settings = builder.settings;
  constexpr std::string_view kProducts = "training.mixed_precision_param", kConverters = "model_spec.converters";
  const bool wide = one_of_two(settings, kProducts, "bfloat16", "float32") == "float32";
  Precision precision = wide ? Precision::Fp32 : Precision::Bf16;
  std::string_view key = kProducts;
  if (const Setting* converters = settings.get(kConverters); converters != nullptr && converters->value != "none") {
    for (const std::string& item : words_of(*converters)) {
      tell_converter(builder, *converters, item);
      if (const std::optional<Precision> narrow = precision_of(item)) precision = *narrow, key = kConverters;
    }
  }
  builder.precision(precision, key);
  if (one_of_two(settings, "training.dtype", "float32", "bfloat16") == "bfloat16")
    native_trainers::pure_bf16(builder.training);
  builder.offload_switch("training.enable_cpu_offload");
}

/// Forward and backward pass in one graph, which main has no way of with a pipeline.
void read_graphs(JobBuilder& builder, const Degrees& d) {
  constexpr std::string_view kKey = "training.disable_cuda_graphs";
  const std::optional<bool> off = builder.settings.boolean(kKey);
  if (!off) return;
  if (!*off && d.pp > 1)
    return builder.settings.refuse(*builder.settings.get(kKey), "true where `pipeline_parallel_degree` is above 1");
  builder.training.stack.cuda_graphs = !*off;
}

/// Arguments that change neither memory nor time, and those that are read as words of others.
constexpr auto kIdle = word_list([] {
  return "model_spec.0 model_spec.flavor optimizer.lr optimizer.0 optimizer.beta1 optimizer.beta2 "
         "optimizer.betas optimizer.eps optimizer.weight_decay loss.0 loss.loss_fn loss.global_vocab_size "
         "activation_checkpoint.preserve_rng_state activation_checkpoint.determinism_check "
         "activation_checkpoint.debug activation_checkpoint.visualize_memory_budget_pareto debug.seed "
         "compile.components compile.backend debug.print_config debug.save_config_file "
         "debug.enable_structured_logging debug.deterministic_warn_only debug.moe_force_load_balance "
         "debug.spmd_typechecking debug override";
});
/// Sections of which every other argument may weigh.
constexpr std::string_view kWeighing[] = {"model_spec", "optimizer", "loss",    "activation_checkpoint",
                                          "debug",      "compile",   "override"};

bool starts_one(std::string_view key, const auto& words) {
  return std::any_of(std::begin(words), std::end(words), [&](std::string_view word) {
    return key == word || (key.starts_with(word) && (key[word.size()] == '.' || key[word.size()] == '['));
  });
}

constexpr int kMostNoted = 12;

/// A statement that settings_of_python() kept.
void tell_not_followed(JobBuilder& builder, const Setting& statement) {
  constexpr std::size_t kMost = 90;
  builder.unmodelled("not_followed", fmt::format("{}: what `{}{}` changes is not counted", statement.where(),
                                                 yaml::printable(statement.value.substr(0, kMost)),
                                                 statement.value.size() > kMost ? "..." : ""));
}

}  // namespace

void read_main_switches(JobBuilder& builder, const Degrees& degrees) {
  read_main_precision(builder);
  read_main_recompute(builder);
  read_switches(builder, degrees, false);
  read_optimizer(builder);
  read_dispatch(builder, degrees);
  read_loss(builder);
  read_graphs(builder, degrees);
  for (const CountedAs& row : kCounted) tell_counted_as(builder, row);
}

void tell_main_rest(JobBuilder& builder) {
  Settings& settings = builder.settings;
  int others = 0;
  for (const std::string_view section : {"training", "parallelism", "compile"})
    if (const Setting* made = settings.get(section); made != nullptr && !made->value.ends_with("Config"))
      builder.unmodelled("not_counted",
                         fmt::format("{}: what `{}` states is not known", made->where(), yaml::printable(made->value)));
  for (const Setting& setting : settings.all()) {
    if (setting.key.starts_with("not_followed[")) {
      settings.get(setting.key);
      if (++others <= kMostNoted) tell_not_followed(builder, setting);
      continue;
    }
    if (!starts_one(setting.key, kWeighing) || settings.asked(setting)) continue;
    settings.get(setting.key);
    const bool section = std::find(std::begin(kWeighing), std::end(kWeighing), setting.key) != std::end(kWeighing);
    if (section || starts_one(setting.key, kIdle) || lowered(setting.value) == "none") continue;
    const std::string value =
        setting.list ? fmt::format("[{}]", setting.items.empty() ? "" : setting.items.front()) : setting.value;
    builder.unmodelled("not_counted", fmt::format("{}: `{} = {}`: what it changes is not counted", setting.where(),
                                                  setting.key, yaml::printable(value)));
  }
  if (others > kMostNoted)
    builder.unmodelled("not_followed",
                       fmt::format("what {} more statements change is not counted", others - kMostNoted));
}

}  // namespace plan::torchtitan
