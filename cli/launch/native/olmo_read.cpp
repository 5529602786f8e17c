// OLMo's YAML (the trainer before OLMo-core): a model in its own words, one micro-batch a device, FSDP or DDP. Keys and
// defaults: OLMo 0.6 olmo/config.py. Tested by tests/launch/native_test.cpp and
// tests/launch/native_switches_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/native/native_trainers.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "planner/problem/axes.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using namespace native_trainers;

constexpr std::string_view kStrategy = "fsdp.sharding_strategy", kDistributed = "distributed_strategy";
constexpr std::string_view kCheckpointing = "activation_checkpointing", kSeq = "model.max_sequence_length";
/// What shapes memory or time and is counted in one way only.
constexpr CountedAs kCounted[] = {
    {"fsdp.wrapping_strategy", "by_block", "weights are counted as gathered by the block"},
    {"ddp.grad_sync_mode", "batch", "gradients are counted as reduced once a step"},
    {"fused_loss", "true", "the loss is counted as fused"},
    {"model.block_type", "sequential moe", "the block is counted as sequential"},
    {"model.moe_dropless", "true", "experts are counted as taking every token that chooses them"},
    {"model.bias_for_layer_norm", "false", "biases of norms are not counted"},
    {"compile.backend", "inductor", "kernels are counted as inductor's"},
};
constexpr auto kIrrelevant = word_list([] {
  return "run_name seed epoch dry_run wandb. compile. ddp. optimizer.learning_rate optimizer.weight_decay "
         "optimizer.betas optimizer.betas[ optimizer.eps optimizer.decay_norm_and_bias "
         "optimizer.decay_embeddings optimizer.no_decay_norm_and_bias optimizer.metrics_log_interval "
         "optimizer.record_update_metrics optimizer.selective_updates scheduler. tokenizer. save_folder "
         "remote_save_folder save_overwrite save_interval save_interval_ephemeral save_num_checkpoints_to_keep "
         "save_interval_unsharded save_num_unsharded_checkpoints_to_keep load_path restore_dataloader "
         "reset_optimizer_state reset_trainer_state sharded_checkpointer no_pre_train_checkpoint max_duration "
         "stop_at stop_after time_limit max_grad_norm max_grad_norm_ratio speed_monitor. eval_interval "
         "eval_subset_num_batches device_eval_batch_size eval_on_load evaluators evaluators[ data. data[ "
         "console_log_interval gen1_gc_interval softmax_auxiliary_loss auxiliary_loss_multiplier "
         "fsdp.use_orig_params model.eos_token_id model.pad_token_id model.init_device model.init_fn "
         "model.init_std model.init_cutoff_factor model.rope_full_precision model.rope_theta model.clip_qkv "
         "model.attention_dropout model.embedding_dropout model.layer_norm_eps model.norm_after "
         "model.attention_layer_norm_with_affine model.scale_emb_init model.emb_init_std model.vocab_size "
         "model.scale_logits model.layer_norm_type model.moe_mlp_impl model.moe_loss_weight model.moe_zloss_weight "
         "model.moe_lbl_in_fp32 model.moe_log_expert_assignment canceled_check_interval python_profiling "
         "torch_profiling try_load_latest_save "
         "extra_steps_after_cancel early_stopping_factor save_data_indices force_save_unsharded "
         "load_path_sharded_checkpointer model.flash_attention hf_datasets_cache_dir module_outputs_save_steps "
         "model.layer_norm_with_affine load_path_unsharded";
});

constexpr FormatWord kFormats[] = {
    {"amp_bf16", Precision::Bf16}, {"amp_fp16", Precision::Fp16}, {"fp32", Precision::Fp32}};

/// The family whose layers OLMo's switches make: norms of queries and keys over all heads, norms without weights.
std::string_view family(Settings& settings, bool experts) {
  if (experts) return settings.boolean("model.attention_layer_norm").value_or(false) ? "olmoe" : "mixtral";
  if (settings.boolean("model.attention_layer_norm").value_or(false)) return "olmo2";
  const bool layer = settings.text("model.layer_norm_type").value_or("default") != "rms";
  return layer && !settings.boolean("model.layer_norm_with_affine").value_or(true) ? "olmo" : "llama";
}

void read_model(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const auto size = [&](std::string_view key, int otherwise) { return builder.degree(key, otherwise); };
  const auto on = [&](std::string_view key, bool otherwise) { return settings.boolean(key).value_or(otherwise); };
  const int hidden = size("model.d_model", 768), heads = size("model.n_heads", 12);
  const std::int64_t inner = settings.states("model.mlp_hidden_size")
                                 ? size("model.mlp_hidden_size", 1)
                                 : builder.product({hidden, size("model.mlp_ratio", 4)});
  const std::string activation = settings.text("model.activation_type").value_or("swiglu");
  const bool single = on("model.multi_query_attention", false);
  const bool experts = settings.text("model.block_type").value_or("") == "moe";
  if (experts && on("model.moe_shared_expert", false))
    return builder.note("unknown_model", fmt::format("{}: an expert that every token takes: name it with `--model`",
                                                     settings.where("model.moe_shared_expert")));
  if (activation != "swiglu" || on("model.include_bias", true) || !on("model.rope", false) || on("model.alibi", false))
    return builder.note("unknown_model",
                        fmt::format("{}: a model with biases, without RoPE or without SwiGLU: name it with `--model`",
                                    settings.where("model.d_model")));
  const int sparse = experts ? size("model.moe_num_experts", 8) : 1, chosen = experts ? size("model.moe_top_k", 2) : 1;
  // OLMo's width counts both halves of the gated layer.
  describe_model(builder, family(settings, experts), "model.d_model",
                 {{"hidden_size", hidden},
                  {"intermediate_size", inner / 2},
                  {"num_hidden_layers", size("model.n_layers", 12)},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", size("model.n_kv_heads", single ? 1 : heads)},
                  {"num_experts", sparse},
                  {"num_local_experts", sparse},
                  {"num_experts_per_tok", chosen},
                  {"vocab_size", size("model.embedding_size", size("model.vocab_size", 50304))}},
                 {{"tie_word_embeddings", on("model.weight_tying", true)}});
  const std::int64_t rows = builder.settings.integer("model.embedding_size").value_or(0);
  if (const Setting* vocabulary = builder.settings.get("model.vocab_size");
      vocabulary != nullptr && rows > 0 && builder.settings.integer("model.vocab_size").value_or(0) > rows)
    builder.settings.refuse(*vocabulary, fmt::format("{} at most, as `model.embedding_size` has rows", rows));
}

void read_sharding(JobBuilder& builder, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  const bool replicated = lowered(settings.text(kDistributed).value_or("fsdp")) == "ddp";
  const FsdpStrategy strategy =
      read_strategy(settings, kStrategy, "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD or HYBRID_SHARD");
  const bool none = replicated || builder.job.gpus == 1;
  builder.fix(&Fixed::zero, none ? 0 : strategy.zero, replicated ? kDistributed : kStrategy);
  constexpr std::string_view kReplicas = "fsdp.hybrid_sharding_num_model_replicas";
  const int replicas = builder.degree(kReplicas, std::max(1, facts.nodes));
  const int gpus = builder.job.gpus;
  const bool groups = strategy.groups && !none && replicas > 1 && gpus > replicas && gpus % replicas == 0;
  builder.fix(&Fixed::shard, groups ? gpus / replicas : 0, kReplicas);
}

void read_recompute(JobBuilder& builder) {
  constexpr std::pair<std::string_view, std::pair<int, int>> kShares[] = {
      {"whole_layer", {1, 1}},  {"one_in_two", {1, 2}},   {"one_in_three", {1, 3}}, {"one_in_four", {1, 4}},
      {"one_in_eight", {1, 8}}, {"two_in_three", {2, 3}}, {"three_in_four", {3, 4}}};
  Settings& settings = builder.settings;
  const std::string word = settings.text(kCheckpointing).value_or("");
  Recompute recompute{};
  if (word == "fine_grained")
    builder.unused(kCheckpointing, "`fine_grained` rebuilds norms and activations: counted as nothing rebuilt");
  for (const auto& [strategy, share] : kShares)
    if (word == strategy) {
      const int depth = builder.job.model ? static_cast<int>(builder.job.model->layers.size()) : 0;
      recompute.kind = RecomputeKind::Full;
      recompute.layers = share.second == 1 ? 0 : std::max(1, depth * share.first / share.second);
    }
  if (!word.empty() && word != "fine_grained" && recompute.kind == RecomputeKind::None)
    settings.refuse(*settings.get(kCheckpointing), "whole_layer, one_in_two, ..., three_in_four or fine_grained");
  builder.fix(&Fixed::recompute, recompute, recompute_text(recompute), kCheckpointing);
}

/// Its optimizer, dropout, and what is compiled: nothing where no section says so.
void read_software(JobBuilder& builder) {
  Settings& settings = builder.settings;
  struct Choice {
    std::string_view key, words;
  };
  constexpr Choice kChoices[] = {{kDistributed, "fsdp ddp single"},
                                 {"fsdp.precision", "pure mixed"},
                                 {"model.layer_norm_type", "default low_precision rms amd_compatible"}};
  for (const Choice& choice : kChoices)
    if (const Setting* setting = settings.get(choice.key); setting != nullptr && !setting->value.empty() &&
                                                           setting->value != "null" &&
                                                           !is_plain(setting->value, choice.words))
      settings.refuse(*setting, choice.words);
  constexpr std::string_view kName = "optimizer.name", kFlash = "model.flash_attention";
  const std::string optimizer = lowered(settings.text(kName).value_or("adamw"));
  if (optimizer == "lionw") builder.training.optimizer = Optimizer::SgdMomentum;  // one moment
  if (optimizer != "lionw" && optimizer != "adamw") settings.refuse(*settings.get(kName), "adamw or lionw");
  builder.origin("optimizer", name(builder.training.optimizer), kName);
  (void)settings.get(kFlash);
  read_dropout(builder, "model.residual_dropout", 0.1);
  const bool compiled = settings.states("compile") || settings.has_section("compile.");
  read_compile(builder, compiled, compiled ? "compile.mode" : "");
  tell_counted(builder, kCounted);
}

}  // namespace

bool is_olmo(const LaunchSource& source) {
  return may_be_yaml(source) && has_lines(source, {"model:", "device_train_microbatch_size:"}) &&
         source.text.find("d_model:") != std::string::npos;
}

Result<LaunchJob> read_olmo(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<Settings> settings = settings_of(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "olmo", Framework::Any);
  builder.launcher(facts);
  read_own_model(builder, facts, read_model);
  fix_unsplit(builder);
  read_sharding(builder, facts);
  read_recompute(builder);
  read_format(builder, "precision", kFormats);
  read_software(builder);
  if (settings->text("fsdp.precision").value_or("pure") == "pure" && settings->states("fsdp.precision"))
    builder.training.grad_bytes = 2;  // reduced in the format of the forward pass
  builder.fix(&Fixed::micro_batch, builder.degree("device_train_microbatch_size", 16), "device_train_microbatch_size");
  builder.global_batch(builder.degree("global_train_batch_size", 512), "global_train_batch_size");
  builder.sequence(builder.degree(kSeq, 1024), kSeq);
  tell_the_rest(builder, kIrrelevant, "OLMo");
  return builder.finish();
}

}  // namespace plan
