// llm-foundry's YAML for Composer (`composer train.py x.yaml`, or `parameters:` of a cloud job): MPT by its sizes or a
// model of the hub, a micro-batch a device, FSDP or replication. Keys and defaults: llm-foundry 0.21
// llmfoundry/utils/config_utils.py, models/mpt/configuration_mpt.py. Tested by tests/launch/foundry_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/native/native_trainers.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/config_json.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using namespace native_trainers;

constexpr std::string_view kSharding = "fsdp_config.sharding_strategy", kMicro = "device_train_microbatch_size";
constexpr std::string_view kCheckpointing = "fsdp_config.activation_checkpointing", kModel = "model.d_model";
constexpr std::string_view kCloud = "parameters.";
/// What shapes memory or time and is counted in one way only.
constexpr CountedAs kCounted[] = {
    {"model.loss_fn", "fused_crossentropy", "the loss is counted as fused"},
    {"model.norm_type", "low_precision_layernorm low_precision_rmsnorm", "norms are counted in low precision"},
    {"model.fc_type", "torch", "linear layers are counted as PyTorch's"},
    {"model.fc_type.name", "torch", "linear layers are counted as PyTorch's"},
    {"model.attn_config.attn_pdrop", "0", "dropout of attention's scores is not counted"},
    {"train_loader.dataset.packing_ratio", "1", "samples that are packed are counted as full sequences"},
};
/// Composer's algorithms that leave the model and the batch as they are.
constexpr std::string_view kHarmless[] = {"algorithms.gradient_clipping.", "algorithms.low_precision_layernorm",
                                          "algorithms.low_precision_layernorm."};
constexpr auto kIrrelevant = word_list([] {
  return "variables. global_seed seed run_name name image command integrations integrations[ compute. "
         "tokenizer. train_loader. eval_loader. eval_loader[ scheduler. callbacks. loggers. max_duration "
         "eval_interval eval_first eval_subset_num_batches device_eval_batch_size progress_bar log_to_console "
         "console_log_interval python_log_level dist_timeout save_folder save_interval "
         "save_num_checkpoints_to_keep save_overwrite save_filename load_path load_weights_only autoresume "
         "max_split_size_mb icl_tasks icl_tasks[ icl_seq_len expandable_segments data_local data_remote "
         "tokenizer_name eval_gauntlet. run_event_loop model.name model.init_device model.pretrained "
         "model.use_auth_token model.trust_remote_code model.init_config. model.verbose model.logit_scale "
         "model.embedding_fraction model.norm_eps model.max_seq_len optimizer.lr optimizer.betas "
         "optimizer.betas[ optimizer.eps optimizer.weight_decay fsdp_config.limit_all_gathers "
         "fsdp_config.backward_prefetch fsdp_config.forward_prefetch fsdp_config.verbose "
         "fsdp_config.state_dict_type fsdp_config.use_orig_params fsdp_config.sync_module_states "
         "fsdp_config.activation_checkpointing_reentrant";
});

/// The keys of all files, those of a cloud job as the trainer gets them, with what `${...}` comes to.
Result<Settings> foundry_settings(std::span<const LaunchSource> files) {
  StatedKeys keys;
  for (const LaunchSource& file : files) {
    Result<StatedKeys> own = keys_of_yaml(file);
    if (!own) return fail(own.error());
    for (auto& [key, value] : *own)
      keys.insert_or_assign(key.starts_with(kCloud) ? key.substr(kCloud.size()) : key, std::move(value));
  }
  interpolate(keys);
  Settings settings = settings_of_keys(keys);
  for (const LaunchSource& file : files) settings.remember(file);
  return settings;
}

/// MPT's own names are the names of its config.json.
void read_sizes(JobBuilder& builder) {
  Settings& settings = builder.settings;
  nlohmann::json config{{"model_type", "mpt"}}, attention = nlohmann::json::object();
  const auto size = [&](nlohmann::json& into, std::string_view name, std::string_view key, int otherwise) {
    into[std::string(name)] = builder.degree(key, otherwise);
  };
  size(config, "d_model", kModel, 2048);
  size(config, "n_heads", "model.n_heads", 16);
  size(config, "n_layers", "model.n_layers", 24);
  size(config, "expansion_ratio", "model.expansion_ratio", 4);
  size(config, "vocab_size", "model.vocab_size", 50368);
  size(config, "max_seq_len", settings.states("model.max_seq_len") ? "model.max_seq_len" : "max_seq_len", 2048);
  config["no_bias"] = settings.boolean("model.no_bias").value_or(false);
  config["tie_word_embeddings"] = settings.boolean("model.tie_word_embeddings").value_or(true);
  config["learned_pos_emb"] = settings.boolean("model.learned_pos_emb").value_or(true);
  const std::string kind = settings.text("model.attn_config.attn_type").value_or("multihead_attention");
  if (kind == "grouped_query_attention") size(attention, "kv_n_heads", "model.attn_config.kv_n_heads", 1);
  if (kind == "multiquery_attention") attention["kv_n_heads"] = 1;
  attention["alibi"] = settings.boolean("model.attn_config.alibi").value_or(false) ||
                       settings.boolean("model.attn_config.rope").value_or(false);
  (void)settings.text("model.attn_config.attn_uses_sequence_id");
  const std::string kernel = lowered(settings.text("model.attn_config.attn_impl").value_or("flash"));
  if (kernel == "torch") builder.training.stack.flash_attention = false;
  if (kernel == "triton") builder.training.stack.attention_kernel = AttentionKernel::Triton;
  if (kernel != "torch" && kernel != "triton" && kernel != "flash")
    settings.refuse(*settings.get("model.attn_config.attn_impl"), "flash, torch or triton");
  for (const char* key : {"model.attn_config.qk_ln", "model.attn_config.clip_qkv", "model.attn_config.rope_theta"})
    (void)settings.text(key);
  if (const std::string ffn = settings.text("model.ffn_config.ffn_type").value_or("mptmlp"); ffn != "mptmlp")
    return builder.errors.push_back(
        {"unknown_model",
         fmt::format("{}: MPT with the feed-forward layer `{}` is not modelled: name the model with `--model`",
                     settings.where("model.ffn_config.ffn_type"), ffn)});
  config["attn_config"] = std::move(attention);
  const std::string where = settings.where(kModel);
  Result<Model> model = read_config_json(config.dump(), where.substr(0, where.rfind(':')));
  if (!model) return builder.errors.insert(builder.errors.end(), model.error().begin(), model.error().end()), void();
  builder.job.model = std::move(*model);
  state(builder.job, "model", builder.job.model->name, where);
}

/// Code of the user's own, or of a model that is no decoder: sizes under MPT's names would make another model.
bool is_own_model(JobBuilder& builder) {
  constexpr std::string_view kName = "model.name";
  const std::string name = builder.settings.text(kName).value_or("");
  if (name.find("bert") != std::string::npos || name.find("t5") != std::string::npos)
    builder.settings.refuse(*builder.settings.get(kName), "a decoder, which alone plan models");
  else if (!builder.settings.states(kModel) || name.empty() || name.starts_with("mpt") || name == "mosaic_gpt")
    return false;
  else
    builder.note("unknown_model", fmt::format("{}: `{}` is a model of code that is not llm-foundry's: name it with "
                                              "`--model`",
                                              builder.settings.where(kName), yaml::printable(name)));
  return true;
}

void read_model(JobBuilder& builder) {
  constexpr std::string_view kHub = "model.pretrained_model_name_or_path";
  if (is_own_model(builder)) return;
  if (builder.settings.states(kModel)) return read_sizes(builder);
  if (const std::optional<std::string> word = builder.settings.text(kHub)) builder.model(*word, *word, kHub);
  if (builder.settings.has_section("model.config_overrides."))
    builder.unused(kHub, "sizes that `config_overrides` changes are counted as the model's own");
}

void read_sharding(JobBuilder& builder, const LaunchFacts& facts) {
  Settings& settings = builder.settings;
  const bool sharded = settings.has_section("fsdp_config.") && builder.job.gpus != 1;
  const FsdpStrategy strategy =
      read_strategy(settings, kSharding, "FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD or NO_SHARD");
  builder.fix(&Fixed::zero, sharded ? strategy.zero : 0, kSharding);
  const int nodes = std::max(1, facts.nodes), gpus = builder.job.gpus;
  const bool hybrid = sharded && strategy.groups && nodes > 1 && gpus % nodes == 0;
  builder.fix(&Fixed::shard, hybrid ? gpus / nodes : 0, kSharding);
  const bool rebuilt = sharded && settings.boolean(kCheckpointing).value_or(false);
  builder.fix(&Fixed::recompute, Recompute{.kind = rebuilt ? RecomputeKind::Full : RecomputeKind::None},
              rebuilt ? "full" : "none", kCheckpointing);
  constexpr std::string_view kOffload = "fsdp_config.activation_cpu_offload", kMixed = "fsdp_config.mixed_precision";
  if (settings.boolean(kOffload).value_or(false))
    builder.unused(kOffload, "activations that go to the host are counted on the GPU");
  const std::string mixed = settings.text(kMixed).value_or("DEFAULT");
  if (mixed == "PURE")
    builder.training.grad_bytes = 2;  // reduced in the format of the forward pass
  else if (mixed != "DEFAULT")
    builder.unused(kMixed, fmt::format("`{}` is counted as DEFAULT", mixed));
}

/// Composer's algorithms change models and batches while they train.
void name_algorithms(JobBuilder& builder) {
  constexpr std::string_view kSection = "algorithms.";
  for (const Setting& setting : builder.settings.all()) {
    if (!setting.key.starts_with(kSection)) continue;
    (void)builder.settings.get(setting.key);
    if (std::none_of(std::begin(kHarmless), std::end(kHarmless),
                     [&](std::string_view known) { return setting.key.starts_with(known); }))
      builder.unmodelled("not_counted", fmt::format("{}: what the algorithm `{}` changes is not counted",
                                                    setting.where(), setting.key.substr(kSection.size())));
  }
}

void read_training(JobBuilder& builder) {
  Settings& settings = builder.settings;
  constexpr std::string_view kOptimizer = "optimizer.name", kPeft = "model.peft_config.r";
  constexpr FormatWord kFormats[] = {{"amp_bf16", Precision::Bf16},
                                     {"amp_fp16", Precision::Fp16},
                                     {"amp_fp8", Precision::Fp8Tensorwise},
                                     {"fp32", Precision::Fp32}};
  read_format(builder, "precision", kFormats);
  const std::string optimizer = lowered(settings.text(kOptimizer).value_or("decoupled_adamw"));
  if (optimizer.find("lion") != std::string::npos)  // one moment, as SGD's momentum
    builder.training.optimizer = Optimizer::SgdMomentum;
  else if (optimizer.find("adam") == std::string::npos)
    builder.unmodelled("optimizer_unknown", fmt::format("{}: the optimizer `{}` is not modelled: counted as adam",
                                                        settings.where(kOptimizer), optimizer));
  builder.origin("optimizer", name(builder.training.optimizer), kOptimizer);
  const bool tuned = settings.text("train_loader.name").value_or("text") == "finetuning";
  builder.training.task = settings.has_section("model.peft_config.") ? Task::Lora
                          : tuned                                    ? Task::FullFinetune
                                                                     : Task::Pretrain;
  builder.origin("task", name(builder.training.task),
                 builder.training.adapters() ? "model.peft_config.peft_type" : "train_loader.name");
  if (!builder.training.adapters()) return;
  builder.training.lora.rank = builder.degree(kPeft, 8);
  builder.origin("lora_rank", fmt::format("{}", builder.training.lora.rank), kPeft);
}

}  // namespace

bool is_foundry(const LaunchSource& source) {
  return may_be_yaml(source) && mentions(source, "device_train_microbatch_size:") &&
         mentions(source, "global_train_batch_size:") && mentions(source, "train_loader:") &&
         mentions(source, "max_duration:");
}

Result<LaunchJob> read_foundry(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<Settings> settings = foundry_settings(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "llm-foundry", Framework::Any);
  builder.launcher(facts);
  if (const int gpus = builder.degree("compute.gpus", 0, 0); gpus > 0 && facts.total == 0)
    builder.gpus(gpus, "compute.gpus");
  read_own_model(builder, facts, read_model);
  fix_unsplit(builder);
  read_sharding(builder, facts);
  read_training(builder);
  read_dropout(builder, "model.resid_pdrop", 0);
  (void)settings->get("model.emb_pdrop");
  if (!settings->boolean("model.use_flash_attention_2").value_or(true))
    builder.unused("model.use_flash_attention_2", "attention is counted as a fused kernel");
  name_algorithms(builder);
  tell_counted(builder, kCounted);
  if (settings->text(kMicro).value_or("auto") == "auto") {
    builder.job.fixed.micro_batch = 1;
    builder.guess("micro_batch", "1", "Composer takes the largest that fits");
  } else {
    builder.fix(&Fixed::micro_batch, builder.degree(kMicro, 1), kMicro);
  }
  builder.global_batch(builder.degree("global_train_batch_size", 1), "global_train_batch_size");
  builder.sequence(builder.degree("max_seq_len", 2048), "max_seq_len");
  tell_the_rest(builder, kIrrelevant, "llm-foundry");
  return builder.finish();
}

}  // namespace plan
