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
    {"float32_logits", "false", "the scores of attention are counted in the format of the products"},
    {"float32_qk_product", "false", "the scores of attention are counted in the format of the products"},
    {"activations_in_float32", "false", "activations are counted in the format of the products"},
    {"cast_logits_to_fp32", "true", "logits are counted in fp32"},
    {"logits_dot_in_fp32", "false", "the output layer is counted in the format of the other products"},
    {"matmul_precision", "default", "products are counted in the stated format"},
    {"use_dpo", "false", "the model beside the trained one, and the pairs of answers, are not counted"},
    {"use_multimodal", "false", "towers for images are not counted"},
    {"enable_diloco", "false", "copies that are trained apart are counted as data parallelism"},
    {"ici_diloco_parallelism", "1", "copies that are trained apart are not counted"},
    {"dcn_diloco_parallelism", "1", "copies that are trained apart are not counted"},
    {"ici_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"dcn_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"ici_context_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"dcn_context_autoregressive_parallelism", "1", "ranks of this axis are not counted"},
    {"te_comm_gemm_overlap", "disabled false none",
     "messages of tensor ranks are counted as not hidden behind products"},
    {"opt_type", "adamw adam_pax sgd muon", "the optimizer is counted as AdamW"},
    {"dtype", "bfloat16 float32", "the products are counted in bfloat16"},
    {"attention", "autoselected flash cudnn_flash_te cudnn_flash_jax dot_product",
     "attention is counted as a fused kernel"},
    {"attention_type", "global full mla", "windows and chunks of attention are counted as the model's own"},
    {"sliding_window_size", "0", "windows of attention are counted as the model's own"},
    {"chunk_attn_window_size", "0", "chunks of attention are counted as the model's own"},
    {"megablox", "true", "products of experts are counted as grouped"},
    {"sparse_matmul", "true", "experts are counted as taking their own tokens alone"},
    {"ragged_buffer_factor", "-1", "buffers of experts are counted in the size of their tokens"},
    {"use_batch_split_schedule", "false", "halves of a batch that hide each other's messages are counted as one"},
    {"scan_pipeline_iterations", "true", "the pipeline's steps are counted as one loop"},
    {"set_remat_policy_on_pipeline_iterations", "true", "recomputation is counted as that of every step"},
    {"set_remat_policy_on_layers_per_stage", "false", "recomputation is counted as that of every step"},
    {"fused_qkv", "false", "products of queries, keys and values are counted apart"},
    {"fused_mlp", "false", "products of the feed-forward layer are counted apart"},
    {"share_kv_projections", "false", "keys and values are counted with weights of their own"},
    {"attention_sink", "false", "sinks of attention are counted as the model's own"},
    {"attention_bias", "false", "biases of attention are counted as the model's own"},
    {"mlp_bias", "false", "biases of experts are counted as the model's own"},
    {"logits_via_embedding", "false", "whether the output layer is the embedding is counted as the model's own"},
    {"use_qk_norm", "false", "norms of queries and keys are counted as the model's own"},
    {"use_post_attn_norm", "false", "norms are counted as the model's own"},
    {"use_post_ffw_norm", "false", "norms are counted as the model's own"},
    {"use_double_wide_mlp", "false", "widths of layers are counted as the model's own"},
    {"num_kv_shared_layers", "0", "keys and values are counted as each layer's own"},
    {"moba", "false", "attention to blocks is counted as full"},
    {"use_indexer", "false", "sparse attention is counted as full, its indexer not at all"},
    {"use_qk_clip", "false", "what clipping queries and keys takes is not counted"},
    {"mhc_expansion_rate", "1 0", "several residual streams are counted as one"},
    {"weight_sparsity_n", "0 none null", "sparse weights are counted as dense"},
    {"custom_mesh", "", "a mesh of its own is counted as the axes say"},
    {"custom_mesh_and_rule", "", "a mesh of its own is counted as the axes say"},
    {"override_logical_axis_rules", "false", "rules of its own for the axes are counted as MaxText's"},
    {"shard_mode", "auto", "sharding is counted as the axes say"},
    {"training_objective", "causal_lm", "the loss is counted as that of the next token"},
    {"context_parallel_load_balance", "true", "the ranks' shares of causal attention are counted as equal"},
    {"use_audio", "false", "towers for sound are not counted"},
    {"partial_rotary_factor", "1", "rotary embeddings are counted on whole heads"},
    {"override_model_config", "false", "sizes that lie over those of `model_name` are not counted"},
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
  if (on(settings, "shard_optimizer_over_data") && builder.job.fixed.zero == 3)
    builder.unmodelled("not_counted", fmt::format("{}: `shard_optimizer_over_data`: states are counted as sharded over "
                                                  "the ranks that share weights, not over copies of them",
                                                  settings.where("shard_optimizer_over_data")));
}

}  // namespace plan::maxtext
