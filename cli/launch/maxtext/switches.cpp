// What a MaxText configuration says beside its mesh: formats of weights and moments, kernels, dropout, and values that
// nothing here prices, which are reported. Defaults: MaxText configs/base.yml, which files give whole. Tested by
// tests/launch/maxtext_switches_test.cpp.
#include <fmt/core.h>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/maxtext/maxtext.hpp"
#include "cli/launch/native/native_trainers.hpp"
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

/// Keys that weigh in ways of their own, and their defaults.
constexpr std::pair<std::string_view, std::string_view> kWeighing[] = {
    {"replicate_quant_scale", "false"},
    {"quant_cfg_path", ""},
    {"vocab_tiling_ag_once", "false"},
    {"use_ragged_attention", "false"},
    {"use_tokamax_splash", "false"},
    {"use_jax_splash", "false"},
    {"mla_qk_head_chunk_size", "0"},
    {"use_sliced_mla_proj", "false"},
    {"use_ragged_sort", "false"},
    {"merge_gating_gmm", "false"},
    {"use_tokamax_gmm", "false"},
    {"use_gmm_v2", "false"},
    {"prefuse_moe_weights", "false"},
    {"num_moe_emb_chunks", "0"},
    {"vocab_size_per_layer_input", "0"},
    {"engram_layers", ""},
    {"first_num_hash_layers", "0"},
    {"compress_ratios", ""},
    {"scan_pipeline_repeats", "false"},
    {"scan_layers_per_stage", "false"},
    {"optimize_mesh_for_tpu_v6e", "false"},
    {"mesh_axes",
     "diloco data stage fsdp fsdp_transpose sequence context context_usp_ulysses context_autoregressive tensor "
     "tensor_sequence expert autoregressive"},
    {"context_sharding", "context"},
    {"ulysses_context_sharding", "context_usp_ulysses"},
    {"internal_compile_num_devices", "-1"},
    {"sharding_strategy", ""},
    {"trainable_parameters_mask", ""},
    {"enable_lora", "false"},
    {"lora.enable_lora", "false"},
    {"use_grpo", "false none"},
    {"trainer_devices_fraction", "1"},
    {"num_trainer_slices", "-1"},
    {"learn_to_init_mode", "false"},
    {"student_params_to_update", "none"},
    {"enable_streaming_diloco", "false"},
    {"max_checkify", "false"},
};

/// Switches of the model's shape, which the model's name states where a file has one.
constexpr std::pair<std::string_view, std::string_view> kShape[] = {
    {"mlp_activations", "silu gelu linear"},
    {"attention_output_dim", "-1"},
    {"global_head_dim", "0"},
    {"global_num_kv_heads", "0"},
    {"first_num_dense_layers", "0"},
    {"shared_experts", "0"},
    {"interleave_moe_layer_step", "1"},
    {"moe_expert_input_dim", "-1"},
    {"trainable_position_size", "-1"},
    {"mtp_num_layers", "0"},
    {"inhomogeneous_layer_cycle_interval", "1"},
};

void tell_weighing(JobBuilder& builder, std::span<const std::pair<std::string_view, std::string_view>> rows) {
  for (const auto& [key, plain] : rows) tell_counted_as(builder, {key, plain, "what it changes is not counted"});
}

/// One of MaxText's number formats; the empty word is the default.
void check_format(Settings& settings, std::string_view key) {
  const std::optional<std::string> word = settings.text(key);
  if (word && !is_plain(lowered(*word), "bfloat16 float16 float32 none"))
    settings.refuse(*settings.get(key), "bfloat16, float16 or float32");
}

bool on(Settings& settings, std::string_view key) { return settings.boolean(key).value_or(false); }

bool narrow(Settings& settings, std::string_view key) {
  const std::string word = lowered(settings.text(key).value_or(""));
  return word == "bfloat16" || word == "float16";
}

/// Optax keeps its moments in the format of the weights, the first in one of its own where that is stated.
void read_formats(JobBuilder& builder) {
  Settings& settings = builder.settings;
  for (const std::string_view key : {"dtype", "weight_dtype", "mu_dtype", "grad_dtype"}) check_format(settings, key);
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
  if (builder.job.fixed.pp.value_or(1) == 1)  // stages of a pipeline are better left unrolled, as MaxText says
    tell_counted_as(builder, {"scan_layers", "true", "layers are counted as one loop"});
  tell_weighing(builder, kWeighing);
  if (!names_model(settings)) tell_weighing(builder, kShape);
  // base.yml has rules of its own, and all mesh axes beside them.
  if (settings.has_section("logical_axis_rules") && !settings.states("mesh_axes"))
    builder.unmodelled("not_counted", "`logical_axis_rules`: sharding by rules of its own is counted as the axes say");
  if (on(settings, "shard_optimizer_over_data") && builder.job.fixed.zero == 3)
    builder.unmodelled("not_counted", fmt::format("{}: `shard_optimizer_over_data`: states are counted as sharded over "
                                                  "the ranks that share weights, not over copies of them",
                                                  settings.where("shard_optimizer_over_data")));
}

}  // namespace plan::maxtext
