// What a MaxText configuration says beside its mesh: formats of weights and moments, kernels, dropout, and values that
// nothing here prices, which are told. Defaults: MaxText configs/base.yml, which files give whole. Tested by
// tests/launch/maxtext_switches_test.cpp.
#include <fmt/core.h>

#include "cli/launch/counted_as.hpp"
#include "cli/launch/maxtext.hpp"
#include "cli/launch/native_trainers.hpp"
#include "presets/hardware.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"

namespace plan::maxtext {
namespace {

constexpr CountedAs kCounted[] = {
    {"capacity_factor", "-1", "tokens beyond an expert's capacity are counted as computed"},
    {"float32_logits", "false False", "the scores of attention are counted in the format of the products"},
    {"float32_qk_product", "false False", "the scores of attention are counted in the format of the products"},
    {"activations_in_float32", "false False", "activations are counted in the format of the products"},
    {"cast_logits_to_fp32", "true True", "logits are counted in fp32"},
    {"logits_dot_in_fp32", "false False", "the output layer is counted in the format of the other products"},
    {"matmul_precision", "default", "products are counted in the stated format"},
    {"use_dpo", "false False", "the model beside the trained one, and the pairs of answers, are not counted"},
    {"use_multimodal", "false False", "towers for images are not counted"},
    {"enable_diloco", "false False", "copies that are trained apart are counted as data parallelism"},
    {"ici_diloco_parallelism", "1", "copies that are trained apart are not counted"},
    {"dcn_diloco_parallelism", "1", "copies that are trained apart are not counted"},
    {"ici_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"dcn_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"ici_context_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"dcn_context_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"override_model_config", "false False", "sizes that lie over those of `model_name` are not counted"},
};

bool on(Settings& settings, std::string_view key) { return settings.boolean(key).value_or(false); }

bool narrow(Settings& settings, std::string_view key) {
  const std::string word = lowered(settings.text(key).value_or(""));
  return word == "bfloat16" || word == "float16";
}

/// Optax keeps its moments in the format of the weights, the first in one of its own where that is stated.
void read_formats(JobBuilder& builder) {
  Settings& settings = builder.settings;
  if (narrow(settings, "weight_dtype")) native_trainers::pure_bf16(builder.training);
  if (narrow(settings, "mu_dtype")) builder.training.moment1_bytes = 2;
  if (lowered(settings.text("mu_dtype").value_or("")) == "float32") builder.training.moment1_bytes = 4;
  if (narrow(settings, "grad_dtype")) builder.training.grad_bytes = 2;
}

/// `v5p-512`: the chips that a job is compiled for; `a3` is GPUs.
void read_topology(JobBuilder& builder) {
  const std::string topology = builder.settings.text("compile_topology").value_or("");
  if (topology.empty() || topology.starts_with("a3") || !builder.job.gpu.empty()) return;
  StoreOptions store = StoreOptions::from_environment();
  store.files = false;
  if (const auto chip = load_gpu("tpu-" + topology.substr(0, topology.find('-')), store))
    builder.job.gpu = chip->name;
  else
    builder.job.hardware = fmt::format("TPUs of the topology `{}`", topology);
}

}  // namespace

void read_switches(JobBuilder& builder) {
  Settings& settings = builder.settings;
  read_formats(builder);
  if (settings.text("attention").value_or("") == "dot_product") builder.training.stack.flash_attention = false;
  if (builder.degree("num_vocab_tiling", 1) > 1) builder.training.stack.cross_entropy = CrossEntropy::Chunked;
  if (settings.boolean("enable_dropout").value_or(true)) native_trainers::read_dropout(builder, "dropout_rate", 0);
  if (on(settings, "use_sft")) {
    builder.training.task = Task::FullFinetune;
    builder.origin("task", "finetune", "use_sft");
  }
  read_topology(builder);
  for (const CountedAs& row : kCounted) tell_counted_as(builder, row);
}

}  // namespace plan::maxtext
