// nanotron's YAML: degrees, micro-batches and a model in the words of Hugging Face. Keys and defaults: nanotron main
// src/nanotron/config. Tested by tests/launch/native_test.cpp and
// tests/launch/native_switches_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/native/native_trainers.hpp"
#include "formulas/names.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using namespace native_trainers;

constexpr std::string_view kDp = "parallelism.dp", kTp = "parallelism.tp", kPp = "parallelism.pp";
constexpr std::string_view kCp = "parallelism.context_parallel_size", kEp = "parallelism.expert_parallel_size";
constexpr std::string_view kModel = "model.model_config.";
/// Sections and keys that say nothing of memory or time.
constexpr auto kIrrelevant = word_list([] {
  return "general. checkpoints. data_stages[ logging. lighteval. profiler. s3_upload. metrics_logging. "
         "tokenizer. optimizer.learning_rate_scheduler. optimizer.clip_grad optimizer.weight_decay "
         "optimizer.optimizer_factory.adam_ optimizer.optimizer_factory.torch_adam_is_fused "
         "model.init_method. model.ddp_bucket_cap_mb tokens.train_steps tokens.val_check_interval "
         "tokens.limit_val_batches tokens.limit_test_batches";
});
/// What shapes memory or time and is counted in one way only.
constexpr CountedAs kCounted[] = {
    {"model.model_config.hidden_act", "silu", "the feed-forward is counted as SiLU's"},
    {"model.model_config.moe_config.token_dispatcher_type", "alltoall", "tokens are counted as sent by all-to-all"},
    {"model.model_config._attn_implementation",
     "flash_attention_2 sdpa ring llama3_ring_attention flex_attention ring_flash_triton",
     "attention is counted as a fused kernel"},
    {"model.model_config._use_doc_masking", "false", "attention is counted across the documents of a sequence"},
    {"parallelism.moe_layer_recompute", "false", "experts are not counted as recomputed"},
};
/// Keys of the model's section that state neither a size nor anything that is counted.
constexpr std::string_view kPlain[] = {"bos_token_id",       "eos_token_id",
                                       "pad_token_id",       "initializer_range",
                                       "pretraining_tp",     "rms_norm_eps",
                                       "rope_theta",         "rope_interleaved",
                                       "use_cache",          "max_position_embeddings",
                                       "_fused_rms_norm",    "_fused_rotary_emb",
                                       "_use_qkv_packed",    "z_loss_enabled",
                                       "z_loss_coefficient", "is_llama_config",
                                       "is_qwen2_config",    "moe_config.router_aux_loss_coef"};

bool on(Settings& settings, const std::string& key, bool otherwise = false) {
  return settings.boolean(key).value_or(otherwise);
}

std::int64_t size(JobBuilder& builder, std::string_view field, int otherwise) {
  return builder.degree(std::string(kModel) + std::string(field), otherwise, 0);
}

/// Experts in every layer, beside a shared one or not.
void describe_experts(JobBuilder& builder, std::int64_t vocab, std::int64_t heads) {
  const bool shared = on(builder.settings, "model.model_config.moe_config.enable_shared_expert");
  const std::int64_t width = size(builder, "moe_config.moe_intermediate_size", 1408);
  const std::int64_t beside = size(builder, "moe_config.shared_expert_intermediate_size", 5632);
  if (const Setting* layers = builder.settings.get("model.model_config.moe_config.layers");
      layers != nullptr && layers->items != std::vector<std::string>{"-1"})
    builder.unused("model.model_config.moe_config.layers", "experts of some layers only are counted in all layers");
  describe_model(builder, shared ? "qwen2_moe" : "mixtral", "model.model_config.hidden_size",
                 {{"hidden_size", size(builder, "hidden_size", 4096)},
                  {"intermediate_size", shared ? size(builder, "intermediate_size", 11008) : width},
                  {"moe_intermediate_size", width},
                  {"shared_expert_intermediate_size", shared ? beside : 0},
                  {"num_experts", size(builder, "moe_config.num_experts", 8)},
                  {"num_local_experts", size(builder, "moe_config.num_experts", 8)},
                  {"num_experts_per_tok", size(builder, "moe_config.top_k", 2)},
                  {"num_hidden_layers", size(builder, "num_hidden_layers", 32)},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", size(builder, "num_key_value_heads", static_cast<int>(heads))},
                  {"vocab_size", vocab}},
                 {{"tie_word_embeddings", on(builder.settings, "model.model_config.tie_word_embeddings")}});
}

void read_model(JobBuilder& builder, int tp) {
  Settings& settings = builder.settings;
  const bool llama = on(settings, "model.model_config.is_llama_config");
  const bool qwen = on(settings, "model.model_config.is_qwen2_config");
  if (!llama && !qwen)
    return builder.note("unknown_model", fmt::format("{}: a model of neither Llama's nor Qwen2's kind: name it with "
                                                     "`--model`",
                                                     settings.home("model.model_config.hidden_size")));
  const std::int64_t multiple = static_cast<std::int64_t>(tp) * builder.degree("model.make_vocab_size_divisible_by", 1);
  const std::int64_t vocab = (size(builder, "vocab_size", 32000) + multiple - 1) / multiple * multiple;
  const std::int64_t heads = size(builder, "num_attention_heads", 32);
  if (settings.has_section("model.model_config.moe_config.")) return describe_experts(builder, vocab, heads);
  const bool bias = on(settings, "model.model_config.attention_bias");
  describe_model(
      builder, bias && qwen ? "qwen2" : "llama", "model.model_config.hidden_size",
      {{"hidden_size", size(builder, "hidden_size", 4096)},
       {"intermediate_size", size(builder, "intermediate_size", 11008)},
       {"num_hidden_layers", size(builder, "num_hidden_layers", 32)},
       {"num_attention_heads", heads},
       {"num_key_value_heads", size(builder, "num_key_value_heads", static_cast<int>(heads))},
       {"sliding_window", size(builder, "sliding_window_size", 0)},
       {"vocab_size", vocab}},
      {{"tie_word_embeddings", on(settings, "model.model_config.tie_word_embeddings")}, {"attention_bias", bias}});
}

void read_axes(JobBuilder& builder, const LaunchFacts& facts, int tp) {
  const int dp = builder.degree(kDp, 1), pp = builder.degree(kPp, 1), cp = builder.degree(kCp, 1);
  if (!builder.plausible({dp, tp, pp, cp})) return;
  builder.launcher(facts);
  if (facts.total == 0) builder.gpus(std::int64_t{dp} * tp * pp * cp, kDp);
  builder.fix(&Fixed::tp, tp, kTp);
  builder.fix(&Fixed::cp, cp, kCp);
  if (cp > 1) builder.fix(&Fixed::cp_kind, CpKind::Ring, "ring", kCp);
  builder.fix(&Fixed::pp, pp, kPp);
  builder.fix(&Fixed::vp, 1, "");
  builder.fix(&Fixed::dp, dp, kDp);
  const int ep = builder.degree(kEp, 1);
  const bool moe = !builder.job.model || builder.job.model->moe();
  builder.fix(&Fixed::ep, moe ? ep : 1, kEp);
  if (!moe && ep > 1) builder.unused(kEp, "the model has no experts: this axis is not counted");
  builder.fix(&Fixed::etp, moe && ep == 1 ? tp : 1, "");
  const std::string mode = lowered(builder.settings.text("parallelism.tp_mode").value_or("all_reduce"));
  if (mode != "all_reduce" && mode != "reduce_scatter")
    builder.settings.refuse(*builder.settings.get("parallelism.tp_mode"), "ALL_REDUCE or REDUCE_SCATTER");
  const bool sp = mode == "reduce_scatter" && tp > 1;
  builder.fix(&Fixed::sequence_parallel, sp, sp ? "on" : "off", "parallelism.tp_mode");
  (void)builder.settings.get("parallelism.tp_linear_async_communication");
  if (!on(builder.settings, "parallelism.tp_recompute_allgather", true) && sp)
    builder.unused("parallelism.tp_recompute_allgather",
                   "gathered inputs are kept for the backward pass: counted as gathered again");
  constexpr std::string_view kEngine = "parallelism.pp_engine";
  const std::string engine = lowered(builder.settings.text(kEngine).value_or("afab"));
  if (engine != "1f1b" && engine != "afab") builder.settings.refuse(*builder.settings.get(kEngine), "1f1b or afab");
  const Schedule schedule = engine == "1f1b" ? Schedule::OneFOneB : Schedule::GPipe;
  if (pp > 1) builder.fix(&Fixed::schedule, schedule, name(schedule), kEngine);
}

void read_memory(JobBuilder& builder) {
  Settings& settings = builder.settings;
  const int stage = builder.degree("optimizer.zero_stage", 0, 0);
  if (stage > 1) settings.refuse(*settings.get("optimizer.zero_stage"), "0 or 1: nanotron shards nothing else");
  builder.fix(&Fixed::zero, std::min(1, stage), "optimizer.zero_stage");
  builder.fix(&Fixed::shard, 0, "");
  constexpr std::string_view kLayer = "parallelism.recompute_layer";
  // Before `recompute_layer` there was a granularity: FULL, or SELECTIVE, which is attention's core alone.
  constexpr std::string_view kGranularity = "parallelism.recompute_granularity";
  const std::string granularity = lowered(settings.text(kGranularity).value_or("none"));
  const bool early = granularity == "full", full = early || on(settings, std::string(kLayer));
  if (!early && granularity != "none" && granularity != "null")
    builder.unused(kGranularity, "`recompute_granularity`: parts of a layer that are recomputed are counted as kept");
  builder.fix(&Fixed::recompute, Recompute{.kind = full ? RecomputeKind::Full : RecomputeKind::None},
              full ? "full" : "none", early ? kGranularity : kLayer);
  const std::string type = lowered(settings.text("model.dtype").value_or("bfloat16"));
  const bool narrow = type == "bfloat16" || type == "float16";
  if (!narrow && type != "float32" && type != "float")
    settings.refuse(*settings.get("model.dtype"), "bfloat16, float16 or float32");
  builder.precision(type == "float16" ? Precision::Fp16 : narrow ? Precision::Bf16 : Precision::Fp32, "model.dtype");
  // The accumulator keeps fp32 copies of the weights; without it the optimizer steps on what the model holds.
  if (!on(settings, "optimizer.accumulate_grad_in_fp32") && narrow) pure_bf16(builder.training);
  constexpr std::string_view kName = "optimizer.optimizer_factory.name";
  const std::string optimizer = lowered(settings.text(kName).value_or("adamw"));
  if (optimizer == "sgd") builder.training.optimizer = Optimizer::Sgd;
  if (optimizer == "sgd" || optimizer.starts_with("adam"))
    builder.origin("optimizer", name(builder.training.optimizer), kName);
  else
    builder.unused(kName, "the optimizer is counted as adam");
}

}  // namespace

bool is_nanotron(const LaunchSource& source) {
  return may_be_yaml(source) && has_lines(source, {"parallelism:", "tokens:"}) &&
         source.text.find("micro_batch_size:") != std::string::npos;
}

Result<LaunchJob> read_nanotron(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  Result<Settings> settings = settings_of(files);
  if (!settings) return tl::unexpected(settings.error());
  JobBuilder builder(*settings, "nanotron", Framework::Any);
  const int tp = builder.degree(kTp, 1);
  if (!facts.model) read_model(builder, tp);
  read_axes(builder, facts, tp);
  read_memory(builder);
  constexpr std::string_view kMicro = "tokens.micro_batch_size", kSteps = "tokens.batch_accumulation_per_replica";
  const int micro = builder.degree(kMicro, 0, 1), steps = builder.degree(kSteps, 1);
  if (settings->states(kMicro)) {
    builder.fix(&Fixed::micro_batch, micro, kMicro);
    builder.global_batch(builder.product({micro, steps, builder.job.fixed.dp.value_or(1)}),
                         settings->states(kSteps) ? kSteps : kMicro);
  }
  if (settings->states("tokens.sequence_length"))
    builder.sequence(builder.degree("tokens.sequence_length", 1), "tokens.sequence_length");
  tell_counted(builder, kCounted);
  for (const std::string_view key : kPlain) (void)settings->get(std::string(kModel) + std::string(key));
  tell_the_rest(builder, kIrrelevant, "nanotron");
  return builder.finish();
}

}  // namespace plan
